// Checks in processes of their own: a check that fails in any way costs only its own rows.

#include "tests/gpu/apart.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/support/files.h"

namespace stowage::testing {
namespace {

const std::vector<std::string> kNames = {"device", "ops f32", "ops bf16",
                                         "growth", "attention"};

// The path of a file that does not exist yet.
std::string NewFile() {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path =
      StrCat(folder != nullptr ? folder : "/tmp", "/apart.jsonl");
  std::filesystem::remove(path);
  return path;
}

std::vector<nlohmann::json> LinesOf(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(ReadAll(path));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(nlohmann::json::parse(line, nullptr, false));
    REQUIRE(lines.back().is_object());
  }
  return lines;
}

// As a program ends that has no handlers, neither a sanitizer's nor doctest's.
bool Crash() {
  std::signal(SIGSEGV, SIG_DFL);
  return raise(SIGSEGV) != 0;
}

bool Sleep() {
  while (true) pause();
}

// A broken check's action after its first row, and the report of its end.
struct Fault {
  std::function<bool(const CheckReport&)> act;
  std::string how;
  bool dies = true;
};

const std::map<std::string, Fault>& Faults() {
  static const std::map<std::string, Fault> kFaults = {
      {"crash",
       {[](const CheckReport&) { return Crash(); },
        "crashed by signal 11 (Segmentation fault)"}},
      {"abort",
       {[](const CheckReport&) { return raise(SIGKILL) != 0; },
        "crashed by signal 9 (Killed)"}},
      {"exit",
       {[](const CheckReport&) -> bool { _exit(70); }, "exited with 70"}},
      {"refuse", {[](const CheckReport&) { return false; }, "exited with 1"}},
      {"hang",
       {[](const CheckReport&) { return Sleep(); }, "timed out after 0.5 s"}},
      {"deaf hang",
       {[](const CheckReport&) {
          std::signal(SIGTERM, SIG_IGN);
          if (fork() == 0) Sleep();
          return Sleep();
        },
        "timed out after 0.5 s"}},
      {"lie",
       {[](const CheckReport& report) {
          CheckRow row{.name = "lie"};
          row.Fail("values differ by 3");
          report.Row(row);
          return true;
        },
        "failed", false}},
      {"flood",
       {[](const CheckReport&) -> bool {
          while (true) std::cout << std::string(1 << 16, '.');
        },
        "timed out after 0.5 s"}},
      {"flood of rows",
       {[](const CheckReport& report) -> bool {
          const CheckRow row{.name = "flood",
                             .figure = std::string(1 << 20, 'x')};
          while (true) report.Row(row);
        },
        "wrote more than 16777216 bytes of rows"}},
  };
  return kFaults;
}

TEST_CASE("a check that goes wrong costs its own rows alone") {
  size_t number = 0;
  for (const auto& named : Faults()) {
    const std::string& kind = named.first;
    const Fault& fault = named.second;
    // Each check breaks by some of the faults.
    const std::string& broken = kNames[number++ % kNames.size()];
    CAPTURE(kind);
    CAPTURE(broken);
    const std::string path = NewFile();
    // A flood of rows takes long to write; its time does not matter.
    const double timeout = kind == "flood of rows" ? 60 : 0.5;
    const ApartResult result = RunApart(
        {broken}, {.timeout = timeout, .lines = path},
        [&act = fault.act](const std::string& name, const CheckReport& report) {
          report.Row({.name = name, .figure = "before"});
          return act(report);
        });
    const ApartResult others =
        RunApart(kNames, {.timeout = 60, .skip = {broken}, .lines = path},
                 [](const std::string& name, const CheckReport& report) {
                   report.Row({.name = name, .figure = "right"});
                   return true;
                 });
    REQUIRE(result.written);
    CHECK(result.rows.front().figure == "before");
    CHECK(result.rows.back().status == CheckStatus::kFailed);
    CHECK(result.died.size() == (fault.dies ? 1 : 0));
    CHECK(others.rows.size() == kNames.size() - 1);
    CHECK(others.skipped == std::vector<std::string>{broken});
    size_t ends = 0;
    for (const nlohmann::json& line : LinesOf(path)) {
      if (!line.contains("end")) continue;
      const std::string how = line["how"];
      CHECK(how == (ends == 0               ? fault.how
                    : line["end"] == broken ? "skipped"
                                            : "ok"));
      ++ends;
    }
    CHECK(ends == kNames.size() + 1);
  }
}

TEST_CASE("the checks after one that crashes run") {
  for (const std::string& broken : kNames) {
    const ApartResult result = RunApart(
        kNames, {}, [&](const std::string& name, const CheckReport& report) {
          if (name == broken) Crash();
          report.Row({.name = name});
          return true;
        });
    CHECK(result.died == std::vector<std::string>{broken});
    REQUIRE(result.rows.size() == kNames.size());
    for (size_t i = 0; i < kNames.size(); ++i) {
      CHECK(result.rows[i].name == kNames[i]);
      CHECK((result.rows[i].status == CheckStatus::kOk) ==
            (kNames[i] != broken));
    }
  }
}

TEST_CASE("a check that leaves no row has died") {
  const ApartResult result =
      RunApart({"ops f32"}, {},
               [](const std::string&, const CheckReport&) { return true; });
  REQUIRE(result.rows.size() == 1);
  CHECK(result.rows[0].figure == "left no row");
}

TEST_CASE("groups and rows can be skipped, and what has no time left waits") {
  const auto run = [](const std::string& name, const CheckReport& report) {
    report.Row({.name = name});
    return true;
  };
  ApartResult result = RunApart(kNames, {.skip = {"ops", "attention"}}, run);
  CHECK(result.skipped ==
        std::vector<std::string>{"ops f32", "ops bf16", "attention"});
  CHECK(result.rows.size() == 2);
  // The first takes some time, which is more than there is.
  result = RunApart(kNames, {.seconds = 1e-9}, run);
  CHECK(result.rows.size() + result.waiting.size() == kNames.size());
  CHECK(result.waiting.size() >= kNames.size() - 1);
}

TEST_CASE("a check that dies tells at which part of it") {
  const auto run = [](const std::string& name, const CheckReport& report) {
    report.At("first");
    report.At("second \"\n");
    if (name == "growth") return Crash();
    report.Row({.name = name});
    return true;
  };
  const ApartResult result = RunApart({"device", "growth"}, {}, run);
  REQUIRE(result.rows.size() == 2);
  CHECK(result.rows[0].figure.empty());
  CHECK(result.rows[1].figure ==
        "crashed by signal 11 (Segmentation fault), at second \"\n");
  // Nothing is left of the check before.
  const ApartResult other =
      RunApart({"growth", "device"}, {},
               [&](const std::string& name, const CheckReport& report) {
                 return name == "growth" ? run(name, report) : Crash();
               });
  CHECK(other.rows[1].figure == "crashed by signal 11 (Segmentation fault)");
}

TEST_CASE("after a row that ends the run the others wait") {
  const ApartResult result = RunApart(
      kNames,
      {.ends = [](const CheckRow& row) { return row.name == "ops f32"; }},
      [](const std::string& name, const CheckReport& report) {
        report.Row({.name = name});
        return true;
      });
  CHECK(result.rows.size() == 2);
  CHECK(result.waiting ==
        std::vector<std::string>{"ops bf16", "growth", "attention"});
}

TEST_CASE("a file that cannot be written is reported") {
  const ApartResult result =
      RunApart({"device"}, {.lines = "/nowhere/rows.jsonl"},
               [](const std::string& name, const CheckReport& report) {
                 report.Row({.name = name});
                 return true;
               });
  CHECK_FALSE(result.written);
  CHECK(result.rows.size() == 1);
}

}  // namespace
}  // namespace stowage::testing
