// tools/judge_plan.py shares no code with the validator and agrees with it, on plans as they
// are made and on plans with one thing wrong.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
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

// The exit codes and output of judge_plan.py for each file, by one interpreter, since starting
// one takes longer than verifying a plan.
std::vector<Verdict> Judge(const std::vector<std::string>& paths) {
  const std::string script = WriteTemp("judge.py", R"(
import contextlib, io, json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, "tools")
import judge_plan
for path in open(sys.argv[1]).read().split("\n"):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = judge_plan.main(["judge_plan.py", path])
    print(json.dumps([code, out.getvalue()]))
)");
  std::string lines;
  for (const std::string& path : paths) {
    lines += (lines.empty() ? "" : "\n") + path;
  }
  const std::string list = WriteTemp("judged", lines);
  const std::string out = TempPath("verdicts");
  const int status = std::system(
      StrCat("python3 '", script, "' '", list, "' >'", out, "' 2>&1").c_str());
  REQUIRE_MESSAGE(status == 0, ReadAll(out));
  std::vector<Verdict> verdicts;
  std::istringstream text(ReadAll(out));
  for (std::string line; std::getline(text, line);) {
    const Json verdict = Json::parse(line);
    verdicts.push_back({verdict[0], verdict[1]});
  }
  REQUIRE(verdicts.size() == paths.size());
  return verdicts;
}

// A plan file that `stowage plan` writes for these arguments.
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

// The content of the plan file of a question, planned once.
const std::string& PlanTextOf(size_t question) {
  static std::map<size_t, std::string> texts;
  std::string& text = texts[question];
  if (text.empty()) text = ReadAll(PlanFileOf(Questions()[question]));
  return text;
}

// The plan of the third question, which recomputes values.
const Json& Recomputed() {
  static const Json plan = Json::parse(PlanTextOf(2));
  return plan;
}

TEST_CASE("plans as they are made are sound to both") {
  for (size_t i = 0; i < Questions().size(); ++i) {
    const auto& question = Questions()[i];
    const std::string path = WriteTemp("made.plan", PlanTextOf(i));
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
  std::vector<std::string> paths;
  for (const auto& change : changes) {
    Json json = whole;
    change(json);
    paths.push_back(
        WriteTemp(StrCat("changed", paths.size(), ".plan"), json.dump()));
  }
  const std::vector<Verdict> verdicts = Judge(paths);
  int wrong = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    const Outcome ours = RunStowage({"check", paths[i]});
    REQUIRE(ours.exit_code <= 1);
    CHECK_MESSAGE(verdicts[i].exit_code == ours.exit_code,
                  StrCat(ours.out, verdicts[i].out));
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
  Json json = Json::parse(PlanTextOf(0));
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
  Json json = Json::parse(PlanTextOf(0));
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
  // Plan files, and the exit codes of check, the judge and report.
  std::vector<std::string> paths, names;
  std::vector<std::array<int, 3>> expected;
  const auto add = [&](const Json& json, const std::string& name,
                       std::array<int, 3> codes) {
    paths.push_back(
        WriteTemp(StrCat("figures", paths.size(), ".plan"), json.dump()));
    names.push_back(name);
    expected.push_back(codes);
  };
  for (const size_t question : {size_t{0}, size_t{2}, size_t{5}}) {
    const Json whole = Json::parse(PlanTextOf(question));
    add(whole, StrCat(question), {0, 0, 0});
    const auto add_with = [&](const char* field, const Json& value,
                              std::array<int, 3> codes) {
      Json json = whole;
      json[field] = value;
      add(json, StrCat(question, " ", field), codes);
    };
    constexpr std::array<int, 3> kRefused = {1, 1, 2};
    for (const char* field : {"lower_bound_bytes", "peak_time",
                              "caching_allocator_bytes", "in_place", "views"}) {
      const int64_t figure = whole[field];
      add_with(field, figure > 0 ? figure - 1 : 1, kRefused);
    }
    add_with("no_reuse_bytes", whole["arena_bytes"].get<int64_t>() - 1,
             kRefused);
    add_with("packer", "greediest: size", kRefused);
    add_with("host_bytes", whole["host_bytes"].get<int64_t>() + 1, {2, 1, 2});
    if (whole.contains("bodies")) {
      Json json = whole;
      json["bodies"][0]["plan"]["lower_bound_bytes"] =
          std::numeric_limits<int64_t>::max();
      add(json, StrCat(question, " a body's bound"), kRefused);
    }
    if (question != 0) continue;  // neither bodies nor optimizations
    add_with("no_reuse_bytes", whole["no_reuse_bytes"].get<int64_t>() + 1,
             kRefused);
    add_with("optimal", !whole["optimal"].get<bool>(), kRefused);
    add_with("order", "memory", kRefused);
  }
  const std::vector<Verdict> verdicts = Judge(paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    INFO(names[i]);
    const std::array codes = {RunStowage({"check", paths[i]}).exit_code,
                              verdicts[i].exit_code,
                              RunStowage({"report", paths[i]}).exit_code};
    CHECK(codes == expected[i]);
  }
}

TEST_CASE("what is no plan file is no plan file") {
  CHECK(Judge("/nowhere").exit_code == 2);
  CHECK(Judge(WriteTemp("text", "hello")).exit_code == 2);
  CHECK(Judge(WriteTemp("list", "[1]")).exit_code == 2);
  std::string twice = PlanTextOf(0);
  twice.insert(1, "\"alignment\": 64, ");
  CHECK(Judge(WriteTemp("twice", twice)).exit_code == 2);
  CHECK(Judge(WriteTemp("old", R"({"format": "stowage-plan", "version": 2})"))
            .exit_code == 2);
}

}  // namespace
}  // namespace stowage::testing
