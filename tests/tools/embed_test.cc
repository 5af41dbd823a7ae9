// stowage finetune --objective embed with tiny models and texts of
// tests/goldens/make_embedding_goldens.py.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "tests/tools/run_stowage.h"
#include "tests/tools/stowage_json.h"

namespace stowage::testing {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr char kModels[] = "tests/goldens/embeddings/";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Words With(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words Arguments(const std::string& model, const Words& more) {
  return With(
      {"finetune", "--objective", "embed", "--weights", kModels + model,
       "--seq", "14", "--lr", "0.01", "--device", "cpu", "--threads", "2"},
      more);
}

const Words kNoDropout = {"--hidden-dropout", "0", "--attention-dropout", "0"};

std::vector<Json> Run(const Words& words) {
  const Outcome outcome = RunStowage(With(words, {"--json"}));
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  return JsonLines(outcome.out);
}

std::vector<double> Losses(const std::vector<Json>& lines) {
  std::vector<double> losses;
  for (const Json& line : lines) {
    if (line.contains("loss")) losses.push_back(line["loss"]);
  }
  return losses;
}

void CheckNear(const std::vector<double>& losses,
               const std::vector<double>& expected) {
  REQUIRE(losses.size() == expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

// 50 queries, each with a document that alone has its second word, and two that have another.
std::string Queries() {
  constexpr std::string_view kWords[] = {"good", "bad",  "fine", "dull",
                                         "long", "rain", "wet"};
  std::string rows;
  for (size_t i = 0; i < 50; ++i) {
    const std::string_view own = kWords[i % 7];
    rows +=
        StrCat(R"({"query": "the )", own, R"( film", "pos": ["it is )", own,
               R"(", "so )", own, R"("], "neg": ["not )", kWords[(i + 1) % 7],
               R"(", "a )", kWords[(i + 3) % 7], " street\"]}\n");
  }
  return WriteTemp("queries.jsonl", rows);
}

TEST_CASE("documents are found, which recall and reciprocal ranks show") {
  const std::vector<Json> lines =
      Run(Arguments("bert", {"--data", Queries(), "--full", "--batch", "6",
                             "--steps", "120", "--eval-every", "60"}));
  const Json& done = lines.back();
  CHECK(done["base_validation_loss"] > 1);
  CHECK(done["validation_loss"] < 0.3);
  CHECK(done["accuracy"] == 1);
  CHECK(done["mrr"] == 1);
  CHECK(!done.contains("labels"));
  CHECK(AllocatedNothing(done));
  const auto evaluation = std::ranges::find_if(
      lines, [](const Json& line) { return line.contains("mrr"); });
  REQUIRE(evaluation != lines.end());
  CHECK((*evaluation)["step"] == 60);
  CHECK_FALSE(evaluation->contains("perplexity"));
}

TEST_CASE("the validation set is evaluated as by sentence-transformers") {
  std::istringstream goldens(ReadAll(StrCat(kModels, "training.csv")));
  std::vector<double> golden;
  for (std::string line; std::getline(goldens, line);) {
    constexpr std::string_view kStart = "bert,evaluation,";
    if (!line.starts_with(kStart)) continue;
    std::istringstream fields(line.substr(kStart.size()));
    for (std::string number; std::getline(fields, number, ',');) {
      golden.push_back(std::stod(number));
    }
  }
  REQUIRE(golden.size() == 3);
  const Words words =
      Arguments("bert", {"--data", StrCat(kModels, "rows.jsonl"), "--full",
                         "--steps", "1", "--lr", "1e-12", "--batch", "8"});
  const Json done = Run(words).back();
  CHECK(done["base_validation_loss"].get<double>() ==
        doctest::Approx(golden[0]).epsilon(1e-5));
  CHECK(done["validation_loss"].get<double>() ==
        doctest::Approx(golden[0]).epsilon(1e-5));
  CHECK(done["accuracy"].get<double>() == doctest::Approx(golden[1]));
  CHECK(done["mrr"].get<double>() == doctest::Approx(golden[2]));
  // The prompts of the folder count; without a query's, the loss is another.
  const Json other =
      Run(With(words, {"--query-prompt", "good", "--document-prompt", "bad"}))
          .back();
  CHECK(std::abs(other["base_validation_loss"].get<double>() - golden[0]) >
        1e-3);
}

TEST_CASE("micro-batches, budgets and lengths change no loss") {
  const Words plain =
      With(kNoDropout, {"--data", Queries(), "--steps", "5", "--batch", "8"});
  const std::vector<Json> whole = Run(Arguments("bert", plain));
  const auto losses_with = [&](const Words& more) {
    return Losses(Run(Arguments("bert", With(plain, more))));
  };
  // Recomputation keeps every bit; micro-batches sum gradients in another order.
  CHECK(losses_with({"--recompute", "auto", "--micro-batches", "1", "--budget",
                     "500KB"}) == Losses(whole));
  CheckNear(losses_with({"--micro-batches", "4"}), Losses(whole));
  CHECK(losses_with({"--micro-batches", "4"}) ==
        losses_with({"--micro-batches", "4", "--recompute", "auto", "--budget",
                     "300KB"}));
  CheckNear(losses_with({"--lengths", "6,14"}), Losses(whole));
}

TEST_CASE("micro-batches fit a budget that the whole batch exceeds") {
  const Words words = Arguments(
      "bert", With(kNoDropout, {"--data", Queries(), "--full", "--steps", "2",
                                "--batch", "32", "--symmetric"}));
  const Json whole = Run(With(words, {"--dry-run"})).back();
  const auto budget = whole["arena_bytes"].get<int64_t>() / 2;
  const std::vector<Json> split =
      Run(With(words, {"--fit", "micro-batches", "--budget", StrCat(budget)}));
  CHECK(split.back()["arena_bytes"].get<int64_t>() <= budget);
  CheckNear(Losses(split), Losses(Run(words)));
}

TEST_CASE("a stopped run resumes with the same losses, dropouts included") {
  const std::string checkpoint = TempPath("run.safetensors");
  const auto arguments = [&](const Words& more) {
    return Arguments("bert", With({"--data", Queries(), "--steps", "8",
                                   "--batch", "16", "--micro-batches", "4"},
                                  more));
  };
  const std::vector<Json> whole = Run(arguments({}));
  std::vector<double> losses =
      Losses(Run(arguments({"--stop-at", "3", "--save", checkpoint})));
  const std::vector<Json> rest = Run(arguments({"--resume", checkpoint}));
  std::ranges::copy(Losses(rest), std::back_inserter(losses));
  CHECK(losses == Losses(whole));
  CHECK(rest.back()["mrr"] == whole.back()["mrr"]);
  const Outcome other = RunStowage(
      arguments({"--resume", checkpoint, "--similarity-scale", "10"}));
  CHECK(Contains(other.err, "resume: similarity-scale was 20, is 10\n"));
}

TEST_CASE("a saved folder embeds as the model that was trained") {
  for (const std::string model : {"bert", "qwen3"}) {
    for (const Words& kind : {Words{"--full"}, Words{"--lora-rank", "4"}}) {
      CAPTURE(model);
      CAPTURE(kind[0]);
      const std::string folder = TempPath(StrCat(model, kind[0]));
      const Json done =
          Run(Arguments(model, With({"--data", Queries(), "--steps", "20",
                                     "--batch", "6", "--query-prompt", "film ",
                                     "--save-merged", folder},
                                    kind)))
              .back();
      // The prompts are those of the folder.
      Words again = Arguments(
          "", {"--data", Queries(), "--full", "--batch", "6", "--steps", "1"});
      *(std::ranges::find(again, "--weights") + 1) = folder;
      const Json loaded = Run(again).back();
      CHECK(
          loaded["base_validation_loss"].get<double>() ==
          doctest::Approx(done["validation_loss"].get<double>()).epsilon(1e-4));
      const Json settings =
          Json::parse(ReadAll(folder + "/config_sentence_transformers.json"));
      CHECK(settings["prompts"]["query"] == "film ");
      const Json modules = Json::parse(ReadAll(folder + "/modules.json"));
      CHECK(modules.size() == (model == "bert" ? 3 : 2));
      CHECK(ReadAll(folder + "/tokenizer.json") ==
            ReadAll(StrCat(kModels, model, "/tokenizer.json")));
    }
  }
}

TEST_CASE("an adapter is saved, and training continues from it") {
  const std::string folder = TempPath("adapter");
  const Json done =
      Run(Arguments("bert", {"--data", Queries(), "--steps", "30", "--batch",
                             "6", "--save-adapter", folder}))
          .back();
  const Json again =
      Run(Arguments("bert", {"--data", Queries(), "--steps", "1", "--batch",
                             "6", "--adapter", folder}))
          .back();
  CHECK(again["base_validation_loss"] == done["validation_loss"]);
}

TEST_CASE("pooling is the model's, unless another is asked for") {
  const auto text_of = [](const std::string& path, const Words& more) {
    Words words = Arguments("", With({"--data", Queries(), "--dry-run"}, more));
    *(std::ranges::find(words, "--weights") + 1) = path;
    const Outcome outcome = RunStowage(words);
    REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
    return outcome.err;
  };
  const std::string roberta = StrCat(kModels, "roberta");
  CHECK(Contains(text_of(roberta, {}),
                 "embeddings are pooled by cls and compared by their dot "
                 "product times 20\n"));
  CHECK(Contains(text_of(roberta, {"--pooling", "mean", "--symmetric",
                                   "--similarity-scale", "1"}),
                 "embeddings are pooled by mean and compared by their dot "
                 "product times 1, in both directions\n"));
  const std::string bare =
      text_of("tests/goldens/encoders/bert", {"--negatives", "1"});
  CHECK(Contains(bare, "pooled by mean and compared by their cosine"));
  CHECK(Contains(bare, "50 queries with a document each and 1 negative, "));
  CHECK(Contains(bare, "not used for embeddings: \"bert.pooler.dense.bias\""));
  // 45 training examples of 14 documents: seven words, two documents each.
  CHECK(Contains(bare,
                 "of the training set, 38 examples have a document that "
                 "an earlier one has"));
}

TEST_CASE("data and options that do not suit the objective are refused") {
  const auto refused = [](const Words& words) {
    const Outcome outcome = RunStowage(words);
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  const auto of = [&](const Words& more) {
    return refused(Arguments("bert", With({"--data", Queries()}, more)));
  };
  for (const Words& option :
       {Words{"--pack"}, Words{"--beta", "1"}, Words{"--gamma", "1"},
        Words{"--prompt", "a"}, Words{"--temperature", "1"},
        Words{"--top-k", "1"}, Words{"--top-p", "0.5"}, Words{"--chat"},
        Words{"--sample", "3"}, Words{"--classifier-dropout", "0.1"}}) {
    CHECK(Contains(of(option), StrCat("[objective] ", option[0])));
  }
  CHECK(Contains(of({"--label-smoothing", "0.1"}),
                 "--label-smoothing is of labels, and --objective embed has "
                 "none"));
  CHECK(Contains(of({"--pooling", "max"}),
                 "[pooling] there is no \"max\"; expected mean, cls or "
                 "lasttoken"));
  CHECK(Contains(of({"--similarity-scale", "0"}),
                 "the scale of similarities is 0"));
  CHECK(Contains(of({"--negatives", "3"}),
                 "line 1 has 2 negatives, and 3 are asked for"));
  for (const char* const batch : {"0", "-1"}) {
    CHECK(Contains(of({"--batch", batch}),
                   StrCat("[train] batch ", batch, " is below 1")));
  }
  CHECK(Contains(of({"--batch", "4611686018427387904"}),
                 "[train] batch 4611686018427387904 of "));
  CHECK(Contains(of({"--batch", "46"}),
                 "batch 46 is larger than the training set of 45 examples"));
  CHECK(Contains(of({"--batch", "1", "--negatives", "0"}),
                 "a batch of 1 example without negatives has nothing to "
                 "compare"));
  CHECK(Contains(of({"--save-merged", "m.safetensors"}),
                 "of a model that embeds texts a folder is written"));
  CHECK(Contains(
      refused(Arguments("bert", {"--data", WriteTemp("a.csv", "query,pos\n")})),
      "is no .jsonl file"));
  CHECK(Contains(
      refused(Arguments(
          "bert", {"--data", WriteTemp("a.jsonl", "{\"query\": \"a\"}\n")})),
      "line 1 has no positive"));
  for (const char* const option : {"--pooling", "--query-prompt"}) {
    Words sft = Arguments("", {"--data", Queries(), option, "cls"});
    *(std::ranges::find(sft, "--weights") + 1) =
        "tests/goldens/pretrained/llama";
    sft.erase(sft.begin() + 1, sft.begin() + 3);
    CHECK(Contains(refused(sft),
                   StrCat("[objective] ", option, " is of --objective embed")));
  }
}

}  // namespace
}  // namespace stowage::testing
