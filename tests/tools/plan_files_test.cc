// Files beside a plan: the lock of memory figures, and certificates (what is written, when
// nothing is, exit codes). tests/certificates checks the claims of certificates.

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;

std::string PlanOf(const std::string& name, const std::string& batch,
                   const std::vector<std::string>& more = {}) {
  const std::string path = TempPath(name);
  std::vector<std::string> arguments = {"plan", "--model", "mlp", "--batch",
                                        batch,  "-o",      path};
  arguments.insert(arguments.end(), more.begin(), more.end());
  if (more.empty()) arguments.insert(arguments.end(), {"--threads", "2"});
  const Outcome planned = RunStowage(arguments);
  REQUIRE_MESSAGE(planned.exit_code == 0, planned.err);
  return path;
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a step that grows fails the check, with its buffers and lines") {
  const std::string lock = TempPath("memory.lock");
  const std::string small = PlanOf("small.plan", "8");
  const Outcome written =
      RunStowage({"lock", "write", lock, StrCat("train=", small),
                  StrCat("other=", PlanOf("other.plan", "4"))});
  REQUIRE_MESSAGE(written.exit_code == 0, written.err);
  CHECK(Contains(written.out, "train: arena "));

  const std::string other = StrCat("other=", TempPath("other.plan"));
  const Outcome same =
      RunStowage({"lock", "check", lock,
                  StrCat("train=", PlanOf("again.plan", "8")), other});
  CHECK(same.exit_code == 0);
  CHECK(same.out == "nothing changed\n");

  const std::string large = StrCat("train=", PlanOf("large.plan", "16"));
  const std::string page = TempPath("memory.html");
  const Outcome grown =
      RunStowage({"lock", "check", lock, large, other, "--html", page});
  CHECK(grown.exit_code == 1);
  CHECK(Contains(grown.out, "train: arena "));
  CHECK(Contains(grown.out, "train: peak of backward "));
  CHECK(Contains(grown.out, "made at nn/"));
  CHECK_FALSE(Contains(grown.out, "other: "));
  CHECK(Contains(grown.err, "a step takes more memory than "));
  CHECK(Contains(ReadAll(page), "<td>train: arena</td>"));

  const Outcome json =
      RunStowage({"lock", "check", lock, large, other, "--json"});
  CHECK(json.exit_code == 1);
  const Json changes = Json::parse(json.out);
  CHECK(changes["grew"] == true);
  CHECK(changes["changes"][0]["figure"] == "arena_bytes");

  // A smaller step is printed, and is no failure.
  const Outcome less =
      RunStowage({"lock", "check", lock,
                  StrCat("train=", PlanOf("less.plan", "4")), other});
  CHECK(less.exit_code == 0);
  CHECK(Contains(less.out, "train: arena "));
}

TEST_CASE("locks and plans that do not go together are refused") {
  const std::string lock = TempPath("refused.lock");
  const std::string plan = PlanOf("refused.plan", "8");
  REQUIRE(
      RunStowage({"lock", "write", lock, StrCat("train=", plan)}).exit_code ==
      0);
  const std::string before = ReadAll(plan);
  const std::string threads =
      PlanOf("threads.plan", "8", {"--threads", "3", "--device", "cpu"});
  struct Row {
    std::vector<std::string> arguments;
    std::string message;
  };
  const Row rows[] = {
      {{"check", lock, plan}, "is no NAME=PLAN"},
      {{"check", lock, StrCat("=", plan)}, "is no NAME=PLAN"},
      {{"check", lock, StrCat("other=", plan)}, "has no program \"other\""},
      {{"check", lock, StrCat("train=", plan), StrCat("train=", plan)},
       "two plans are called \"train\""},
      {{"check", lock, StrCat("train=", threads)},
       ", 3 threads with slots aligned to 256, and the lock is of a plan for "
       "cpu with "},
      {{"check", plan, StrCat("train=", plan)}, "[lock] "},
      {{"check", lock, StrCat("train=", lock)}, "[plan file] "},
      {{"write", plan, StrCat("train=", plan)},
       "an input is never written over"},
      {{"check", lock, StrCat("train=", plan), "--html", plan},
       "an input is never written over"},
      {{"check", lock, StrCat("train=", plan), "--html", lock},
       "an input is never written over"},
      {{"check", lock, "train=nowhere"}, "nowhere"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> arguments = {"lock"};
    arguments.insert(arguments.end(), row.arguments.begin(),
                     row.arguments.end());
    const Outcome outcome = RunStowage(arguments);
    CAPTURE(row.message);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(Contains(outcome.err, row.message));
  }
  CHECK(ReadAll(plan) == before);
}

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
