// `stowage plan --certificate`: what it writes, when it writes nothing, and what it exits with.
// tests/certificates checks the claims.

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/strings.h"
#include "tests/tools/plan_as_json.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

bool HasLine(const std::string& text, const std::string& line) {
  return StrCat("\n", text).find(StrCat("\n", line, "\n")) != text.npos;
}

TEST_CASE("the certificate of a plan has the figures that are printed") {
  const std::string file = TempPath("plan.certificate");
  const Json plan = PlanAsJson({"--model", "mlp", "--certificate", file});
  const std::string text = ReadAll(file);
  CHECK(HasLine(text, StrCat("arena ", plan["arena_bytes"].get<int64_t>())));
  CHECK(HasLine(text, StrCat("lower-bound ", plan["peak_time"].get<int64_t>(),
                             " ", plan["lower_bound_bytes"].get<int64_t>())));
  CHECK(HasLine(text, StrCat("nodes ", plan["nodes"].get<int64_t>())));
}

TEST_CASE("a refused budget has a certificate, and is refused as without one") {
  const std::string file = TempPath("refusal.certificate");
  const Outcome without = RunStowage(
      {"plan", "--model", "mlp", "--fit", "none", "--budget", "1KiB"});
  const Outcome with = RunStowage({"plan", "--model", "mlp", "--fit", "none",
                                   "--budget", "1KiB", "--certificate", file});
  CHECK(with.exit_code == 1);
  CHECK(with.err == without.err);
  const std::string text = ReadAll(file);
  CHECK(text.starts_with("stowage-certificate 1\nclaim refusal"));
  CHECK(HasLine(text, "budget 1024"));
}

TEST_CASE(
    "a refusal that no order bound shows has no certificate, and says so") {
  const std::string file = TempPath("none.certificate");
  const Json plan = PlanAsJson({"--model", "mlp"});
  // The order of the mlp's updates decides its peak: no bound of all orders is as high.
  const std::string budget = StrCat(plan["arena_bytes"].get<int64_t>() - 1);
  const Outcome refused =
      RunStowage({"plan", "--model", "mlp", "--fit", "none", "--budget", budget,
                  "--certificate", file});
  CHECK(refused.exit_code == 1);
  CHECK_MESSAGE(refused.err.find(StrCat("that is within the budget of ", budget,
                                        " bytes, so the refusal has no "
                                        "certificate")) != std::string::npos,
                refused.err);
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("what is no plan has no certificate") {
  const Outcome outcome =
      RunStowage({"plan", "--model", "mlp", "--pareto", "--certificate",
                  TempPath("no.certificate")});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("--certificate") != std::string::npos);
}

}  // namespace
}  // namespace stowage::testing
