// stowage finetune by preferences, with tiny models: against losses of torch
// (tests/goldens/make_preference_goldens.py), and what holds of every run.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kObjectives[] = {"dpo", "ipo", "orpo", "simpo", "kto"};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

const Json& Golden() {
  static const Json golden =
      Json::parse(ReadFile("tests/goldens/preference.json").value());
  return golden;
}

std::string Data(const std::string& objective) {
  const bool is_kto = objective == "kto";
  std::string lines;
  for (const Json& example : Golden()[is_kto ? "judged" : "pairs"]) {
    lines += example.dump() + "\n";
  }
  return WriteTemp(is_kto ? "judged.jsonl" : "pairs.jsonl", lines);
}

// All ten examples of the train part in one batch, whose order is then nothing.
Words Arguments(const std::string& model, const std::string& objective,
                const Words& more) {
  Words words = {"finetune",
                 "--weights",
                 "tests/goldens/pretrained/" + model,
                 "--tokenizer",
                 LettersTokenizer(),
                 "--data",
                 Data(objective),
                 "--objective",
                 objective,
                 "--optimizer",
                 "sgd",
                 "--lr",
                 StrCat(Golden()["rate"].get<double>()),
                 "--schedule",
                 "constant",
                 "--batch",
                 "10",
                 "--seq",
                 "30",
                 "--steps",
                 "5",
                 "--threads",
                 "2",
                 "--device",
                 "cpu",
                 "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

struct Run {
  std::vector<double> losses;
  std::vector<Json> lines;
  Json done;
};

Run Finetune(const Words& words) {
  const Outcome outcome = RunStowage(words);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  Run run;
  run.lines = JsonLines(outcome.out);
  for (const Json& line : run.lines) {
    if (line.contains("loss")) run.losses.push_back(line["loss"]);
    run.done = line;
  }
  return run;
}

// To what f32 tells of the first loss, which is the largest.
void CheckNear(const std::vector<double>& found,
               const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(found[i] - expected[i]) <= 1e-5 * expected.front());
  }
}

const Words kAdapter = {"--adapter", "tests/goldens/peft/qwen2.gguf"};

TEST_CASE("losses are those of torch, of all weights and of an adapter") {
  for (const char* const objective : kObjectives) {
    CAPTURE(objective);
    const Json& golden = Golden()[objective];
    const Run whole = Finetune(Arguments("llama", objective, {"--full"}));
    CheckNear(whole.losses, golden["llama"]);
    const Run adapter = Finetune(Arguments("qwen2.gguf", objective, kAdapter));
    CheckNear(adapter.losses, golden["qwen2.gguf"]);
  }
}

TEST_CASE("micro-batches change nothing, and KTO, which they would, has none") {
  for (const char* const objective : kObjectives) {
    CAPTURE(objective);
    const Words words =
        Arguments("llama", objective, {"--full", "--micro-batches", "5"});
    if (std::string_view(objective) != "kto") {
      CheckNear(Finetune(words).losses, Golden()[objective]["llama"]);
      continue;
    }
    const Outcome refused = RunStowage(words);
    CHECK(refused.exit_code == 2);
    CHECK(Contains(refused.err,
                   "[objective] kto compares each answer with a mean over its "
                   "batch, which --micro-batches 5 would divide"));
  }
}

TEST_CASE("what is held out is judged as one batch, whatever the batches are") {
  for (const char* const objective : kObjectives) {
    CAPTURE(objective);
    const Json& examples =
        Golden()[std::string_view(objective) == "kto" ? "judged" : "pairs"];
    std::string lines;
    for (size_t i = 0; i < 30; ++i) {
      lines += examples[i % examples.size()].dump() + "\n";
    }
    const std::string data = WriteTemp("thirty.jsonl", lines);
    for (const char* const batch : {"1", "2", "5"}) {
      CAPTURE(batch);
      Words words = Arguments("qwen2.gguf", objective, kAdapter);
      *(std::ranges::find(words, "--data") + 1) = data;
      *(std::ranges::find(words, "--batch") + 1) = batch;
      *(std::ranges::find(words, "--steps") + 1) = "1";
      const double loss = Finetune(words).done["base_validation_loss"];
      CHECK(loss ==
            doctest::Approx(Golden()[objective]["held_out"].get<double>())
                .epsilon(2e-6));
    }
  }
}

TEST_CASE("a run that was stopped goes on to the same losses") {
  for (const char* const objective : {"dpo", "kto", "orpo"}) {
    CAPTURE(objective);
    // Batches of 3, in another order in each pass.
    const Words more = {"--batch", "3", "--lr", "0.3"};
    const auto arguments = [&](Words words) {
      words.insert(words.end(), more.begin(), more.end());
      return Arguments("llama", objective, words);
    };
    const Run whole = Finetune(arguments({}));
    const std::string saved = TempPath(StrCat(objective, ".safetensors"));
    const Run first = Finetune(arguments({"--stop-at", "2", "--save", saved}));
    const Run second = Finetune(arguments({"--resume", saved}));
    std::vector<double> losses = first.losses;
    losses.insert(losses.end(), second.losses.begin(), second.losses.end());
    CHECK(losses == whole.losses);
    CHECK(second.done["validation_loss"] == whole.done["validation_loss"]);
    CHECK(second.done["accuracy"] == whole.done["accuracy"]);
    // A run of another objective says so.
    const Outcome other =
        RunStowage(arguments({"--resume", saved, "--beta", "0.3"}));
    CHECK(Contains(other.err, "beta"));
  }
}

TEST_CASE("sequences of several lengths give the same losses") {
  for (const char* const objective : {"dpo", "orpo", "kto"}) {
    CAPTURE(objective);
    const Words more = {"--batch", "2", "--steps", "5"};
    Words lengths = more;
    lengths.insert(lengths.end(), {"--lengths", "16,22"});
    const Run one = Finetune(Arguments("llama", objective, more));
    const Run several = Finetune(Arguments("llama", objective, lengths));
    CheckNear(several.losses, one.losses);
  }
}

TEST_CASE("what is preferred is told, and grows") {
  const Run run = Finetune(Arguments(
      "llama", "dpo", {"--full", "--steps", "20", "--eval-every", "10"}));
  CHECK(run.losses.back() < 0.2 * run.losses.front());
  // The one that is held out.
  CHECK(run.done["accuracy"] == 1);
  // A loss of answers has no perplexity, on the way neither.
  CHECK(std::ranges::count_if(run.lines, [](const Json& line) {
          return line.contains("validation_loss");
        }) == 3);
  for (const Json& line : run.lines) CHECK_FALSE(line.contains("perplexity"));
  // Before the first step the model is its own reference.
  CHECK(run.done["base_validation_loss"].get<double>() ==
        doctest::Approx(std::log(2.0)));
}

TEST_CASE("options that an objective has not are refused by name") {
  const auto refused = [&](const std::string& objective, const Words& more) {
    const Outcome outcome = RunStowage(Arguments("llama", objective, more));
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  CHECK(Contains(refused("ppo", {}),
                 "[objective] there is no \"ppo\"; expected sft, dpo, ipo, "
                 "orpo, simpo, kto, classify or embed"));
  CHECK(Contains(refused("dpo", {"--gamma", "1"}),
                 "[objective] --gamma is of --objective simpo, and the "
                 "objective is dpo"));
  CHECK(Contains(refused("dpo", {"--beta", "0"}),
                 "[preference] beta of dpo is 0; expected a finite number "
                 "above 0"));
  CHECK(Contains(refused("dpo", {"--label-smoothing", "0.1"}),
                 "--label-smoothing is of single tokens, and --objective dpo "
                 "judges whole answers"));
  CHECK(Contains(refused("sft", {"--beta", "1"}),
                 "[objective] --beta is of preferences, and the objective is "
                 "sft"));
  const std::string text = WriteTemp("story.txt", "The ship sails at noon.");
  const Outcome of_text = RunStowage(
      {"finetune", "--weights", "tests/goldens/pretrained/llama", "--tokenizer",
       LettersTokenizer(), "--data", text, "--objective", "dpo"});
  CHECK(of_text.exit_code == 2);
  CHECK(Contains(of_text.err, "learns from the examples of a .jsonl file"));
}

}  // namespace
}  // namespace stowage::testing
