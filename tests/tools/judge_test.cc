// tools/judge_plan.py, which shares no code with the validator, agrees with it: on
// plans as they are made, and on plans with one thing wrong.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::ordered_json;

struct Verdict {
  int exit_code = -1;
  std::string out;
};

Verdict Judge(const std::string& path) {
  const std::string out = TempPath("verdict");
  const int status = std::system(
      StrCat("python3 tools/judge_plan.py '", path, "' >'", out, "' 2>&1")
          .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadAll(out)};
}

// What `stowage plan` makes of these words.
std::string PlanFileOf(std::vector<std::string> words) {
  const std::string path = TempPath("step.plan");
  words.insert(words.begin(), "plan");
  for (const char* word : {"--no-plan-cache", "--threads", "1", "-o"}) {
    words.push_back(word);
  }
  words.push_back(path);
  const Outcome outcome = RunStowage(words);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  return path;
}

const std::vector<std::vector<std::string>>& Questions() {
  static const std::vector<std::vector<std::string>> kQuestions = {
      {"--model", "mlp"},
      {"--model", "gpt-nano", "--dtype", "bf16"},
      {"--model", "gpt-nano", "--budget", "16MiB", "--recompute", "auto"},
      {"--model", "gpt-nano", "--budget", "9MiB", "--recompute", "auto",
       "--offload", "auto"},
      {"--model", "gpt-nano", "--budget", "16MiB", "--micro-batches", "auto"},
  };
  return kQuestions;
}

TEST_CASE("plans as they are made are sound to both") {
  for (const auto& question : Questions()) {
    const std::string path = PlanFileOf(question);
    INFO(StrCat(question[1], " ", question.back()));
    CHECK(RunStowage({"check", path}).exit_code == 0);
    const Verdict verdict = Judge(path);
    CHECK_MESSAGE(verdict.exit_code == 0, verdict.out);
    CHECK(verdict.out.starts_with("sound: "));
  }
}

TEST_CASE("of plans with one thing wrong both say so, or neither") {
  const Json whole = Json::parse(ReadAll(PlanFileOf(Questions()[2])));
  const int64_t alignment = whole["alignment"];
  std::vector<std::function<void(Json&)>> changes;
  const size_t buffers = whole["buffers"].size();
  for (size_t i = 0; i < buffers; i += 1 + buffers / 15) {
    changes.push_back([=](Json& j) {
      int64_t offset = j["buffers"][i]["offset"];
      j["buffers"][i]["offset"] = offset + alignment;
    });
    changes.push_back([=](Json& j) {
      j["buffers"][i]["offset"] = j["buffers"][(i * 7 + 3) % buffers]["offset"];
    });
    changes.push_back([=](Json& j) {
      int64_t upper = j["buffers"][i]["upper"];
      int64_t lower = j["buffers"][i]["lower"];
      j["buffers"][i]["upper"] = std::max(lower, upper - 1);
    });
    changes.push_back([=](Json& j) {
      int64_t size = j["buffers"][i]["size"];
      j["buffers"][i]["size"] = size / 2;
    });
  }
  int wrong = 0;
  for (const auto& change : changes) {
    Json json = whole;
    change(json);
    const std::string path = WriteTemp("changed.plan", json.dump());
    const Outcome ours = RunStowage({"check", path});
    REQUIRE(ours.exit_code <= 1);
    const Verdict theirs = Judge(path);
    CHECK_MESSAGE(theirs.exit_code == ours.exit_code,
                  StrCat(ours.out, theirs.out));
    wrong += ours.exit_code;
  }
  CHECK(wrong > static_cast<int>(changes.size()) / 2);
  CHECK(wrong < static_cast<int>(changes.size()));
}

TEST_CASE("the judge knows the budget") {
  Json json = Json::parse(ReadAll(PlanFileOf(Questions()[2])));
  CHECK(json["budget_bytes"] == 16 << 20);
  CHECK(json["levers"].get<std::string>().find("recompute auto") !=
        std::string::npos);
  json["budget_bytes"] = json["arena_bytes"].get<int64_t>() - 1;
  const Verdict verdict = Judge(WriteTemp("tight.plan", json.dump()));
  CHECK(verdict.exit_code == 1);
  CHECK(verdict.out.find("is above the budget of") != std::string::npos);
}

TEST_CASE("what is no plan file is no plan file") {
  CHECK(Judge("/nowhere").exit_code == 2);
  CHECK(Judge(WriteTemp("text", "hello")).exit_code == 2);
  CHECK(Judge(WriteTemp("list", "[1]")).exit_code == 2);
  CHECK(Judge(WriteTemp("old", R"({"format": "stowage-plan", "version": 2})"))
            .exit_code == 2);
}

}  // namespace
}  // namespace stowage::testing
