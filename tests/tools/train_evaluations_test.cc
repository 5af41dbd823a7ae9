// Evaluations on the way of `stowage train`: when they come, when a run stops by them,
// what is kept, and the log of steps.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Strings = std::vector<std::string>;

// The lines of evaluations.
std::vector<Json> Evaluations(const std::vector<Json>& lines) {
  std::vector<Json> evaluations;
  for (const Json& line : lines) {
    if (line.contains("validation_loss") && !line.contains("done")) {
      evaluations.push_back(line);
    }
  }
  return evaluations;
}

// A run whose weights never move: all evaluations are alike.
Strings Unmoved(Strings more) {
  more.insert(more.end(),
              {"--optimizer", "sgd", "--lr", "1e-30", "--steps", "20"});
  return more;
}

// The step of a checkpoint.
int64_t StepOf(const std::string& path) {
  const Outcome outcome =
      RunStowage(Mlp({"--resume", path, "--optimizer", "sgd", "--steps", "1"}));
  constexpr std::string_view kBefore = "the checkpoint is at step ";
  const size_t at = outcome.err.find(kBefore);
  INFO(outcome.err);
  REQUIRE(at != std::string::npos);
  return std::stoll(outcome.err.substr(at + kBefore.size()));
}

TEST_CASE("a run evaluates every so many steps, and changes nothing by it") {
  const std::vector<Json> plain = TrainMlp({});
  CHECK(Evaluations(plain).empty());
  const std::vector<Json> lines = TrainMlp({"--eval-every", "2"});
  const std::vector<Json> evaluations = Evaluations(lines);
  REQUIRE(evaluations.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    const auto steps = static_cast<int64_t>(2 * (i + 1));
    CHECK(evaluations[i]["step"] == steps);
    CHECK(evaluations[i].contains("accuracy"));
    // As a run that ends there evaluates.
    const std::vector<Json> shorter = TrainMlp({"--stop-at", StrCat(steps)});
    CHECK(shorter.back()["validation_loss"] ==
          evaluations[i]["validation_loss"]);
  }
  CHECK(lines.back()["validation_loss"] == plain.back()["validation_loss"]);
  double best = 1e9;
  int64_t best_step = 0;
  for (const Json& evaluation : evaluations) {
    if (evaluation["validation_loss"] >= best) continue;
    best = evaluation["validation_loss"];
    best_step = evaluation["step"];
  }
  CHECK(lines.back()["best_validation_loss"] == best);
  CHECK(lines.back()["best_step"] == best_step);
  CHECK_FALSE(plain.back().contains("best_step"));
}

TEST_CASE("a text's evaluations have a perplexity") {
  const Outcome outcome =
      RunStowage({"train", "--model", "gpt-nano", "--data",
                  WriteTemp("text.txt", SomeText()), "--batch", "2", "--seq",
                  "8", "--steps", "2", "--eval-every", "1", "--sample", "0",
                  "--json", "--device", "cpu"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::vector<Json> evaluations = Evaluations(JsonLines(outcome.out));
  REQUIRE(evaluations.size() == 2);
  CHECK(evaluations[0]["perplexity"].get<double>() ==
        doctest::Approx(
            std::exp(evaluations[0]["validation_loss"].get<double>())));
}

TEST_CASE("a run stops when its patience is at an end, and keeps the best") {
  const std::string path = TempPath("early.safetensors");
  const Outcome outcome = RunStowage(Mlp(Unmoved(
      {"--eval-every", "2", "--patience", "3", "--save", path, "--json"})));
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  const std::vector<Json> lines = JsonLines(outcome.out);
  // Step 2 is the best, and 4, 6 and 8 are no better.
  CHECK(Evaluations(lines).size() == 4);
  CHECK(lines.back()["steps"] == 8);
  CHECK(lines.back()["best_step"] == 2);
  CHECK(lines.back()["stopped_early"] == true);
  const std::string best = TempPath("early.best.safetensors");
  CHECK(outcome.err.find(
            "stowage: stopped early after step 8 of 20: 3 evaluations have "
            "not lowered the validation loss; the best, ") !=
        std::string::npos);
  CHECK(outcome.err.find(StrCat(", was behind step 2, and is kept as \"", best,
                                "\"")) != std::string::npos);
  CHECK(StepOf(path) == 8);
  CHECK(StepOf(best) == 2);

  const Outcome unsaved =
      RunStowage(Mlp(Unmoved({"--eval-every", "1", "--patience", "1"})));
  CHECK(unsaved.err.find("was behind step 1, and is not kept, since there is "
                         "no --save") != std::string::npos);
  CHECK(unsaved.out.find("mlp, 2 steps on cpu") != std::string::npos);
}

TEST_CASE("a resumed run stops where the whole one would have stopped") {
  for (const char* cut : {"3", "4", "5"}) {
    const std::string path = TempPath(StrCat("cut", cut, ".safetensors"));
    const auto run = [&](Strings more) {
      more.insert(more.end(), {"--eval-every", "2", "--patience", "3"});
      return TrainMlp(Unmoved(more));
    };
    run({"--stop-at", cut, "--save", path});
    const std::vector<Json> rest = run({"--resume", path});
    CHECK(rest.back()["steps"] == 8);
    CHECK(rest.back()["best_step"] == 2);
    CHECK(rest.back()["stopped_early"] == true);
  }
  // What has stopped is done.
  const std::string path = TempPath("again.safetensors");
  const Strings again =
      Unmoved({"--eval-every", "2", "--patience", "1", "--continue", path});
  CHECK(TrainMlp(again).back()["steps"] == 4);
  const std::vector<Json> done = TrainMlp(again);
  CHECK(done.size() == 1);
  CHECK(done.back()["steps"] == 4);
}

constexpr std::string_view kHeader =
    "step,epoch,loss,lr,grad_norm,step_seconds,tokens_per_second,arena_bytes,"
    "budget_bytes,validation_loss";

// The rows of a log, without its header.
std::vector<Strings> RowsOf(const std::string& path) {
  std::istringstream in(ReadAll(path));
  std::string line;
  REQUIRE(std::getline(in, line));
  CHECK(line == kHeader);
  std::vector<Strings> rows;
  while (std::getline(in, line)) {
    rows.emplace_back();
    std::istringstream cells(line + ",");
    for (std::string cell; std::getline(cells, cell, ',');) {
      rows.back().push_back(cell);
    }
    CHECK(rows.back().size() == 10);
  }
  return rows;
}

TEST_CASE("--metrics adds metrics to each evaluation, by name") {
  const std::vector<Json> lines =
      TrainMlp({"--metrics", "f1_micro,top5,f1_macro,mean_iou", "--eval-every",
                "3", "--lr", "0.01"});
  const std::vector<Json> plain =
      TrainMlp({"--eval-every", "3", "--lr", "0.01"});
  int evaluations = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].contains("validation_loss")) continue;
    ++evaluations;
    CHECK(lines[i]["validation_loss"] == plain[i]["validation_loss"]);
    const auto value = [&](const char* name) {
      return lines[i].at(name).get<double>();
    };
    // With one label for each row, F1 by the sums is the accuracy.
    CHECK(value("f1_micro") == doctest::Approx(value("accuracy")));
    CHECK(value("accuracy") == plain[i]["accuracy"].get<double>());
    CHECK(value("top5") > value("accuracy"));
    CHECK(value("top5") < 1);
    CHECK(value("mean_iou") < value("f1_macro"));
    CHECK(value("f1_macro") > 0);
    CHECK(!plain[i].contains("f1_macro"));
  }
  CHECK(evaluations == 3);  // behind steps 3 and 6, and the last line
}

TEST_CASE("metrics that a model does not have are refused") {
  struct Row {
    Strings options;
    const char* message;
  };
  const Row rows[] = {
      {{"--metrics", "f1"},
       "[metrics] there is no metric \"f1\"; expected accuracy, top5"},
      {{"--metrics", "top5,top5"}, "[metrics] top5 is given twice in"},
      {{"--metrics", "accuracy,"}, "[metrics] there is no metric \"\""}};
  for (const Row& row : rows) {
    const Outcome outcome = RunStowage(Mlp(row.options));
    INFO(row.message, " / ", outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
}

TEST_CASE("metrics of a loss that keeps no logits are refused") {
  const Outcome outcome = RunStowage(
      {"train", "--model", "gpt2-124m", "--seq", "8", "--batch", "1", "--data",
       WriteTemp("text.txt", SomeText()), "--metrics", "accuracy"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("[metrics] \"accuracy\" of \"gpt2-124m\": its loss is "
                         "no cross-entropy of logits that it keeps") !=
        std::string::npos);
}

TEST_CASE("a log has a row for each step, with what --json prints") {
  const std::string path = TempPath("run.csv");
  const std::vector<Json> lines =
      TrainMlp({"--log", path, "--eval-every", "4", "--clip-norm", "1",
                "--budget", "8MiB"});
  const std::vector<Strings> rows = RowsOf(path);
  REQUIRE(rows.size() == 6);
  size_t row = 0;
  for (const Json& line : lines) {
    if (!line.contains("loss")) continue;
    const char* const keys[] = {"step",
                                "epoch",
                                "loss",
                                "lr",
                                "grad_norm",
                                "step_seconds",
                                "tokens_per_second",
                                "arena_bytes",
                                "budget_bytes"};
    for (size_t i = 0; i < std::size(keys); ++i) {
      INFO(keys[i]);
      CHECK(std::stod(rows[row][i]) == line[keys[i]].get<double>());
    }
    ++row;
  }
  CHECK(row == 6);
  CHECK(rows[0][9].empty());
  CHECK(std::stod(rows[3][9]) ==
        Evaluations(lines)[0]["validation_loss"].get<double>());
  CHECK(std::stod(rows[5][9]) == lines.back()["validation_loss"].get<double>());
  // Without clipping or a budget their cells are empty.
  TrainMlp({"--log", path});
  CHECK(RowsOf(path)[0][4].empty());
  CHECK(RowsOf(path)[0][8].empty());
}

TEST_CASE("a resumed run appends its steps to the log, none of them twice") {
  const std::string log = TempPath("resumed.csv");
  const std::string path = TempPath("resumed.safetensors");
  const auto go_on = [&](const char* until) {
    TrainMlp({"--log", log, "--continue", path, "--stop-at", until});
  };
  go_on("3");
  const std::string first = ReadAll(log);
  // As a run that was killed leaves it: steps behind its checkpoint, the last in part.
  WriteTemp("resumed.csv", first + "4,0,9,9,,9,9,9,,\n5,0,9");
  go_on("6");
  const std::vector<Strings> rows = RowsOf(log);
  REQUIRE(rows.size() == 6);
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i][0] == StrCat(i + 1));
    CHECK(std::stod(rows[i][2]) < 9);
  }
  CHECK(ReadAll(log).starts_with(first));
  // A log that is not there begins where the run goes on.
  std::filesystem::remove(log);
  TrainMlp({"--log", log, "--resume", path, "--steps", "8"});
  CHECK(RowsOf(log).size() == 2);
  CHECK(RowsOf(log)[0][0] == "7");
  // Another file is kept.
  const std::string other = WriteTemp("other.csv", "a,b\n1,2\n");
  const Outcome refused =
      RunStowage(Mlp({"--log", other, "--resume", path, "--steps", "8"}));
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("is no log of a run, which begins with step,epoch,") !=
        std::string::npos);
  CHECK(ReadAll(other) == "a,b\n1,2\n");
}

using Scalars = std::map<std::string, float>;

// What an event of TensorBoard's files says, read by what its format is said to be
// (tensorflow/core/util/event.proto): its step, and its scalars; of the start of a
// session, the scalar "session_log.status".
struct Event {
  int64_t step = 0;
  Scalars scalars;
};

// Calls `field` with the number of each field of a message, and its number or bytes.
template <typename F>
void ForEachField(std::string_view message, const F& field) {
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(!message.empty());
      const auto byte = static_cast<uint8_t>(message[0]);
      message.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (!message.empty()) {
    const uint64_t key = varint();
    const uint64_t type = key & 7;
    uint64_t number = 0;
    size_t size = type == 1 ? 8 : type == 5 ? 4 : 0;
    if (type == 0) number = varint();
    if (type == 2) size = static_cast<size_t>(varint());
    REQUIRE(size <= message.size());
    field(static_cast<int>(key >> 3), number, message.substr(0, size));
    message.remove_prefix(size);
  }
}

std::vector<Event> EventsOf(const std::string& file) {
  const std::string bytes = ReadAll(file);
  std::vector<Event> events;
  for (std::string_view rest = bytes; !rest.empty();) {
    uint64_t length = 0;
    REQUIRE(rest.size() > 12);
    std::memcpy(&length, rest.data(), sizeof(length));
    REQUIRE(rest.size() >= length + 16);
    Event event;
    ForEachField(rest.substr(12, length), [&](int field, uint64_t number,
                                              std::string_view summary) {
      if (field == 2) event.step = static_cast<int64_t>(number);
      if (field == 7) {
        ForEachField(summary, [&](int, uint64_t status, std::string_view) {
          event.scalars["session_log.status"] = static_cast<float>(status);
        });
      }
      if (field != 5) return;
      ForEachField(summary, [&](int, uint64_t, std::string_view value) {
        std::string tag;
        float scalar = 0;
        ForEachField(value, [&](int part, uint64_t, std::string_view text) {
          if (part == 1) tag = text;
          if (part == 2) std::memcpy(&scalar, text.data(), sizeof(scalar));
        });
        event.scalars[tag] = scalar;
      });
    });
    events.push_back(std::move(event));
    rest.remove_prefix(length + 16);
  }
  return events;
}

TEST_CASE("a log in a folder is TensorBoard's") {
  const std::string folder = TempPath("board") + "/";
  const std::string path = TempPath("board.safetensors");
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      names.insert(entry.path().string());
    }
    return names;
  };
  const std::vector<Json> lines =
      TrainMlp({"--log", folder, "--eval-every", "2", "--continue", path,
                "--stop-at", "3", "--budget", "8MiB"});
  std::set<std::string> names = files();
  REQUIRE(names.size() == 1);
  const std::string first = *names.begin();
  CHECK(first.find("events.out.tfevents.") != std::string::npos);
  const std::vector<Event> events = EventsOf(first);
  // The version, three steps, and evaluations behind the second and the last.
  REQUIRE(events.size() == 6);
  CHECK(events[0].scalars.empty());
  const int64_t steps[] = {1, 2, 2, 3, 3};
  for (size_t i = 0; i < std::size(steps); ++i) {
    CHECK(events[i + 1].step == steps[i]);
  }
  for (const Json& json : lines) {
    if (!json.contains("loss")) continue;
    const auto event = std::ranges::find_if(events, [&](const Event& each) {
      return each.step == json["step"] && each.scalars.contains("loss");
    });
    REQUIRE(event != events.end());
    const Scalars& scalars = event->scalars;
    CHECK(scalars.size() == 7);
    for (const auto& scalar : scalars) {
      const std::string& tag = scalar.first;
      INFO(tag);
      CHECK(scalar.second == static_cast<float>(json[tag].get<double>()));
    }
  }
  CHECK(events[3].scalars ==
        Scalars{{"validation_loss",
                 static_cast<float>(
                     Evaluations(lines)[0]["validation_loss"].get<double>())}});

  // A run that goes on says from where, in a file of its own.
  TrainMlp({"--log", folder, "--continue", path, "--stop-at", "4"});
  names = files();
  REQUIRE(names.size() == 2);
  names.erase(first);
  const std::vector<Event> then = EventsOf(*names.begin());
  REQUIRE(then.size() == 4);
  CHECK(then[1].step == 4);
  CHECK(then[1].scalars == Scalars{{"session_log.status", 1}});
  CHECK(then[2].step == 4);
  CHECK(then[2].scalars.contains("loss"));
  CHECK(EventsOf(first).size() == 6);
}

TEST_CASE("skipped steps are rows without a loss that is no number") {
  const std::string log = TempPath("skipped.csv");
  const Outcome outcome =
      RunStowage(Mlp({"--log", log, "--on-nonfinite", "skip", "--optimizer",
                      "sgd", "--lr", "1e30", "--steps", "20"}));
  CHECK(outcome.exit_code == 1);
  const std::vector<Strings> rows = RowsOf(log);
  REQUIRE(rows.size() > 2);
  for (const Strings& row : rows) {
    CHECK(row[2].find("nan") == std::string::npos);
    CHECK(row[2].find("inf") == std::string::npos);
  }
}

TEST_CASE("evaluations that cannot be are refused by name") {
  struct Row {
    Strings options;
    const char* message;
  };
  const Row rows[] = {
      {{"--eval-every", "-1"}, "eval-every -1 is out of range"},
      {{"--patience", "-1"}, "patience -1 is negative"},
      {{"--patience", "2"},
       "--patience 2 counts evaluations; give --eval-every with it"},
      {{"--log", TempPath("no folder/run.csv")}, "No such file or directory"},
      {{"--log", StrCat(WriteTemp("a file", ""), "/")}, "cannot be made"},
      {{"--log", TempPath("one"), "--svg", TempPath("one")}, "give"},
  };
  for (const Row& row : rows) {
    const Outcome outcome = RunStowage(Mlp(row.options));
    INFO(row.message, " / ", outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(row.message) != std::string::npos);
  }
}

}  // namespace
}  // namespace stowage::testing
