// tools/judge_plan.py, which shares no code with the validator, agrees with it: on
// plans as they are made, and on plans with one thing wrong.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/support/instances.h"
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
      {"--model", "gpt-nano", "--budget", "16MiB", "--recompute", "auto",
       "--micro-batches", "2"},
      // A loop.
      {"--model", "gpt-nano", "--recompute", "none", "--micro-batches", "4"},
  };
  return kQuestions;
}

// The plan of the third question: in it values are made twice.
const Json& Recomputed() {
  static const Json plan = Json::parse(ReadAll(PlanFileOf(Questions()[2])));
  return plan;
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
  const Json& whole = Recomputed();
  const int64_t alignment = whole["alignment"];
  std::vector<std::function<void(Json&)>> changes;
  const size_t buffers = whole["buffers"].size();
  const size_t some = TakesAllInstances() ? 15 : 3;
  for (size_t i = 0; i < buffers; i += 1 + buffers / some) {
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
  // What is wrong with a slot by itself.
  for (size_t i = 0; i < buffers; i += 1 + buffers / (some / 3)) {
    changes.push_back([=](Json& j) {
      int64_t offset = j["buffers"][i]["offset"];
      j["buffers"][i]["offset"] = offset + 1;
    });
    changes.push_back([=](Json& j) {
      j["buffers"][i]["offset"] = (int64_t{1} << 40) * alignment;
    });
    changes.push_back([=](Json& j) {
      const bool is_io = j["buffers"][i]["region"] == "io";
      j["buffers"][i]["region"] = is_io ? "weights" : "io";
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

// A result that is moved onto an operand which dies there harms nothing that is read
// later: only who knows what a kernel may overwrite can tell.
TEST_CASE("the judge knows which operands may be overwritten") {
  const Json& whole = Recomputed();
  const int64_t span = whole["regions"]["activations"].get<int64_t>() +
                       whole["regions"]["workspace"].get<int64_t>();
  int moved = 0;
  const int most = TakesAllInstances() ? 8 : 2;
  for (size_t time = 0; time < whole["nodes"].size() && moved < most; ++time) {
    const Json& node = whole["nodes"][time];
    if (node["view"] == true || node["results"].empty()) continue;
    const size_t result = whole["buffer_of"][size_t{node["results"][0]}];
    for (size_t i = 0; i < node["inputs"].size(); ++i) {
      const size_t operand = whole["buffer_of"][size_t{node["inputs"][i]}];
      const Json& dying = whole["buffers"][operand];
      if (operand == result || dying["upper"] != time + 1 ||
          dying["region"] != "activations" ||
          whole["buffers"][result]["region"] != "activations" ||
          dying["offset"].get<int64_t>() +
                  whole["buffers"][result]["size"].get<int64_t>() >
              span ||
          std::ranges::count(node["may_overwrite"], Json(i)) > 0) {
        continue;
      }
      Json json = whole;
      json["buffers"][result]["offset"] = dying["offset"];
      const std::string path = WriteTemp("onto_operand.plan", json.dump());
      CHECK(RunStowage({"check", path}).exit_code == 1);
      const Verdict verdict = Judge(path);
      CHECK(verdict.exit_code == 1);
      CHECK_MESSAGE(
          verdict.out.find(StrCat("is overwritten at time ", time,
                                  " while it is read")) != std::string::npos,
          verdict.out);
      ++moved;
      break;
    }
  }
  CHECK(moved == most);
}

TEST_CASE("an arena above the budget of its plan is no valid plan") {
  Json json = Json::parse(ReadAll(PlanFileOf(Questions()[0])));
  const int64_t arena = json["arena_bytes"];
  const auto check = [&](int64_t budget) {
    json["budget_bytes"] = budget;
    const std::string path = WriteTemp("budget.plan", json.dump());
    CHECK(Judge(path).exit_code == (budget < arena ? 1 : 0));
    return RunStowage({"check", path});
  };
  CHECK(check(arena).exit_code == 0);
  const Outcome outcome = check(arena - 1);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out == StrCat("the arena of ", arena,
                              " bytes is above the budget of ", arena - 1,
                              "\n"));
}

// The validator reads where views lie off the graph; a file of another opinion it
// refuses (exit code 2).
TEST_CASE("the judge knows the bounds of views") {
  Json json = Json::parse(ReadAll(PlanFileOf(Questions()[0])));
  for (size_t value = 0; value < json["values"].size(); ++value) {
    Json& view = json["values"][value];
    if (view["root"] == value) continue;
    view["offset"] = json["values"][size_t{view["root"]}]["bytes"];
    const std::string path = WriteTemp("outside.plan", json.dump());
    CHECK(RunStowage({"check", path}).exit_code == 2);
    const Verdict verdict = Judge(path);
    CHECK(verdict.exit_code == 1);
    CHECK(verdict.out.find("reaches outside its root") != std::string::npos);
    return;
  }
  FAIL("there is no view");
}

TEST_CASE("the judge knows the budget") {
  Json json = Recomputed();
  CHECK(json["budget_bytes"] == 16 << 20);
  CHECK(json["optimizations"].get<std::string>().find("recompute auto") !=
        std::string::npos);
  json["budget_bytes"] = json["arena_bytes"].get<int64_t>() - 1;
  const Verdict verdict = Judge(WriteTemp("tight.plan", json.dump()));
  CHECK(verdict.exit_code == 1);
  CHECK(verdict.out.find("is above the budget of") != std::string::npos);
}

// A plain step, one made to fit a budget, and one with a loop.
TEST_CASE("check, report and the judge refuse the same figures") {
  for (const size_t question : {size_t{0}, size_t{2}, size_t{5}}) {
    const Json whole = Json::parse(ReadAll(PlanFileOf(Questions()[question])));
    const auto exits = [](const Json& json) {
      const std::string path = WriteTemp("figures.plan", json.dump());
      return std::array{RunStowage({"check", path}).exit_code,
                        Judge(path).exit_code,
                        RunStowage({"report", path}).exit_code};
    };
    CHECK(exits(whole) == std::array{0, 0, 0});
    for (const char* field : {"lower_bound_bytes", "peak_time",
                              "caching_allocator_bytes", "in_place", "views"}) {
      Json json = whole;
      const int64_t figure = json[field];
      json[field] = figure > 0 ? figure - 1 : 1;
      INFO(question, " ", field);
      CHECK(exits(json) == std::array{1, 1, 2});
    }
    Json json = whole;
    json["no_reuse_bytes"] = json["arena_bytes"].get<int64_t>() - 1;
    CHECK(exits(json) == std::array{1, 1, 2});
    json = whole;
    json["packer"] = "greediest: size";
    CHECK(exits(json) == std::array{1, 1, 2});
    json = whole;
    json["host_bytes"] = json["host_bytes"].get<int64_t>() + 1;
    CHECK(exits(json) == std::array{2, 1, 2});
    if (whole.contains("bodies")) {
      json = whole;
      json["bodies"][0]["plan"]["lower_bound_bytes"] =
          std::numeric_limits<int64_t>::max();
      CHECK(exits(json) == std::array{1, 1, 2});
    }
    if (question != 0) continue;  // neither bodies nor optimizations
    json = whole;
    json["no_reuse_bytes"] = json["no_reuse_bytes"].get<int64_t>() + 1;
    CHECK(exits(json) == std::array{1, 1, 2});
    json = whole;
    json["optimal"] = !json["optimal"].get<bool>();
    CHECK(exits(json) == std::array{1, 1, 2});
    json = whole;
    json["order"] = "memory";
    CHECK(exits(json) == std::array{1, 1, 2});
  }
}

TEST_CASE("what is no plan file is no plan file") {
  CHECK(Judge("/nowhere").exit_code == 2);
  CHECK(Judge(WriteTemp("text", "hello")).exit_code == 2);
  CHECK(Judge(WriteTemp("list", "[1]")).exit_code == 2);
  std::string twice = ReadAll(PlanFileOf(Questions()[0]));
  twice.insert(1, "\"alignment\": 64, ");
  CHECK(Judge(WriteTemp("twice", twice)).exit_code == 2);
  CHECK(Judge(WriteTemp("old", R"({"format": "stowage-plan", "version": 2})"))
            .exit_code == 2);
}

}  // namespace
}  // namespace stowage::testing
