// The checks of a device in processes of their own, on a device that crashes or hangs:
// whatever it does to a row of any group, the other rows are found.

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpu/apart.h"
#include "tests/gpu/check_rows.h"
#include "tests/gpu/device_suite.h"
#include "tests/gpu/faulty_device.h"

namespace stowage::testing {
namespace {

// As a program ends that has no handlers, neither a sanitizer's nor doctest's.
void Crash() {
  std::signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
}

constexpr size_t kOpCases = 400;

void Hang() {
  while (true) pause();
}

// A row of each group; of the ops in one type, since the others take as long.
std::vector<std::string> RowsOf(const SuiteOptions& options) {
  std::vector<std::string> rows;
  for (const std::string& name : SuiteRows(options)) {
    if (name.starts_with("ops ") && !name.starts_with("ops f32 ")) continue;
    rows.push_back(name);
  }
  return rows;
}

// The suite where the device does `fault` in the rows of which `broken` holds.
template <typename Broken>
ApartResult RunSuite(void (*fault)(), double timeout, const Broken& broken) {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kSmall);
  options.growth.count_heap = false;  // the fake's own
  options.op_cases = kOpCases;
  return RunApart(
      RowsOf(options), {.timeout = timeout},
      [&](const std::string& name, const CheckReport& report) {
        SuiteOptions alone = options;
        alone.row = name;
        alone.ops.at = [&](const std::string& part) { report.At(part); };
        Faults faults;
        if (broken(name)) {
          faults.used = [&](std::string_view what) {
            // Of what the device is there is no kernel.
            if ((what == "Memory") == (name == "device")) fault();
          };
        }
        return RunDeviceSuite(OpenFaulty(faults), alone,
                              [&](const CheckRow& row) { report.Row(row); })
            .ok();
      });
}

// "ops f32 1-400" is of "ops".
std::string GroupOf(const std::string& name) {
  return name.substr(0, name.find(' '));
}

void CheckEveryRowDied(const ApartResult& result, const std::string& how) {
  SuiteOptions options = SuiteOptionsFor(SuiteSize::kSmall);
  options.op_cases = kOpCases;
  const std::vector<std::string> names = RowsOf(options);
  CHECK(result.died == names);
  REQUIRE(result.rows.size() == names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(result.rows[i].name == names[i]);
    CHECK(result.rows[i].status == CheckStatus::kFailed);
    CHECK(result.rows[i].figure.starts_with(how));
    // Of the table the case that ran is named.
    CHECK((result.rows[i].figure.find(", at ") != std::string::npos) ==
          (GroupOf(names[i]) == "ops"));
  }
}

TEST_CASE("a device that crashes in every row costs each, one by one") {
  CheckEveryRowDied(
      RunSuite(Crash, 60, [](const std::string&) { return true; }),
      "crashed by signal 11 (Segmentation fault)");
}

TEST_CASE("a device that hangs in every row costs each its time") {
  CheckEveryRowDied(RunSuite(Hang, 2, [](const std::string&) { return true; }),
                    "timed out after 2 s");
}

TEST_CASE("a device that crashes in some groups costs none of the others") {
  const auto broken = [](const std::string& name) {
    const std::string group = GroupOf(name);
    return group == "device" || group == "bench" || group == "bits" ||
           name == "ops f32 401-800";
  };
  const ApartResult result = RunSuite(Crash, 600, broken);
  size_t ok = 0;
  for (const CheckRow& row : result.rows) {
    CAPTURE(row.name);
    CAPTURE(row.figure);
    CHECK((row.status == CheckStatus::kFailed) == broken(row.name));
    ok += row.status == CheckStatus::kOk ? 1 : 0;
  }
  CHECK(ok > 5);
}

}  // namespace
}  // namespace stowage::testing
