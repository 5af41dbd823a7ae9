// stowage finetune --objective classify with tiny encoders
// (tests/goldens/make_encoder_goldens.py) and a few texts.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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

constexpr char kModels[] = "tests/goldens/encoders/";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// 40 texts, of which "good" and "bad" say the label.
std::string Films(std::string_view good = "good",
                  std::string_view bad = "bad") {
  constexpr std::string_view kBefore[] = {"the film is", "it is", "a film and",
                                          "so very"};
  constexpr std::string_view kBehind[] = {".", "and long", "!", "and so", ","};
  std::string rows = "text,label\n";
  for (int i = 0; i < 40; ++i) {
    const bool is_good = i % 3 != 0;
    rows += StrCat("\"", kBefore[i % 4], is_good ? " good " : " bad ",
                   kBehind[i % 5], "\",", is_good ? good : bad, "\n");
  }
  return WriteTemp("films.csv", rows);
}

Words Arguments(const std::string& model, const Words& more) {
  Words words = {
      "finetune", "--objective", "classify", "--weights", kModels + model,
      "--seq",    "14",          "--batch",  "6",         "--lr",
      "0.01",     "--device",    "cpu",      "--threads", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<Json> Run(const Words& words) {
  Words all = words;
  all.push_back("--json");
  const Outcome outcome = RunStowage(all);
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

const Words kNoDropout = {"--hidden-dropout",     "0",
                          "--attention-dropout",  "0",
                          "--classifier-dropout", "0"};

Words With(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words WithoutDropout(const Words& more) { return With(kNoDropout, more); }

TEST_CASE("labels of texts are learnt, and judged by accuracy and macro F1") {
  const std::vector<Json> lines =
      Run(Arguments("bert-base", {"--data", Films(), "--full", "--steps", "60",
                                  "--eval-every", "30"}));
  const Json& done = lines.back();
  CHECK(done["labels"] == Json({"bad", "good"}));
  CHECK(done["base_validation_loss"].get<double>() ==
        doctest::Approx(0.693).epsilon(0.02));
  CHECK(done["validation_loss"] < 0.1);
  CHECK(done["accuracy"] == 1);
  CHECK(done["f1_macro"] == 1);
  CHECK(AllocatedNothing(done));
  const auto evaluation = std::ranges::find_if(
      lines, [](const Json& line) { return line.contains("f1_macro"); });
  REQUIRE(evaluation != lines.end());
  CHECK((*evaluation)["step"] == 30);
  CHECK_FALSE(evaluation->contains("perplexity"));
}

TEST_CASE("what is held out is judged as transformers judges it") {
  // The last line of the goldens of bert: loss, accuracy, macro F1.
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
  // Ten texts, the last of which are no whole batch.
  for (const char* const batch : {"1", "4", "6"}) {
    CAPTURE(batch);
    Words words = Arguments("bert", {"--data", StrCat(kModels, "rows.tsv"),
                                     "--full", "--steps", "1"});
    *(std::ranges::find(words, "--batch") + 1) = batch;
    *(std::ranges::find(words, "--lr") + 1) = "1e-12";
    const Json done = Run(words).back();
    for (const char* const loss : {"base_validation_loss", "validation_loss"}) {
      CHECK(std::abs(done[loss].get<double>() - golden[0]) < 1e-5);
    }
    CHECK(done["accuracy"].get<double>() == doctest::Approx(golden[1]));
    CHECK(done["f1_macro"].get<double>() == doctest::Approx(golden[2]));
  }
}

TEST_CASE("adapters learn beside a head that is trained whole") {
  const std::string folder = TempPath("adapter");
  const Json done = Run(Arguments("bert-base", {"--data", Films(), "--steps",
                                                "120", "--lora-rank", "4",
                                                "--save-adapter", folder}))
                        .back();
  CHECK(done["validation_loss"] < 0.2);
  CHECK(done["accuracy"] == 1);
  // It begins where the other ended.
  const Json again = Run(Arguments("bert-base", {"--data", Films(), "--steps",
                                                 "1", "--adapter", folder}))
                         .back();
  CHECK(again["base_validation_loss"] == done["validation_loss"]);
  // Of another order of labels its head would mean something else.
  const Outcome refused =
      RunStowage(Arguments("bert-base", {"--data", Films("a", "b"), "--steps",
                                         "1", "--adapter", folder}));
  CHECK(refused.exit_code == 2);
  CHECK(Contains(refused.err,
                 "is of a classifier with the labels [\"bad\",\"good\"], and "
                 "this one has [\"a\",\"b\"]"));
}

TEST_CASE("a model is saved whole, and is the same when it is opened again") {
  for (const Words& kind : {Words{"--full"}, Words{"--lora-rank", "4"}}) {
    CAPTURE(kind[0]);
    const std::string folder = TempPath(StrCat("saved", kind[0]));
    const Json done =
        Run(Arguments("bert-base", With({"--data", Films(), "--steps", "120",
                                         "--save-merged", folder},
                                        kind)))
            .back();
    CHECK(done["validation_loss"] < 0.2);
    const Json config = Json::parse(ReadAll(folder + "/config.json"));
    CHECK(config["architectures"] == Json({"BertForSequenceClassification"}));
    CHECK(config["id2label"] == Json({{"0", "bad"}, {"1", "good"}}));
    CHECK(config["label2id"] == Json({{"bad", 0}, {"good", 1}}));
    CHECK(config["dtype"] == "float32");
    CHECK(config["attention_probs_dropout_prob"] == 0.2);
    for (const char* const file : {"tokenizer.json", "tokenizer_config.json"}) {
      CHECK(ReadAll(StrCat(folder, "/", file)) ==
            ReadAll(StrCat(kModels, "bert-base/", file)));
    }
    Words again = Arguments("", {"--data", Films(), "--full", "--steps", "1"});
    *(std::ranges::find(again, "--weights") + 1) = folder;
    CHECK(Run(again).back()["base_validation_loss"].get<double>() ==
          doctest::Approx(done["validation_loss"].get<double>()).epsilon(1e-5));
  }
}

TEST_CASE("a pair is two texts for the model, and its second one counts") {
  std::string rows = "text\ttext_pair\tlabel\n";
  for (int i = 0; i < 40; ++i) {
    rows += StrCat("so\t", i % 2 == 0 ? "good" : "bad", "\t", i % 2, "\n");
  }
  const std::string data = WriteTemp("pairs.tsv", rows);
  for (const std::string model : {"bert-base", "roberta-base"}) {
    CAPTURE(model);
    Words words = Arguments(
        model, WithoutDropout({"--data", data, "--full", "--steps", "80"}));
    if (model == "roberta-base") {
      words = With(words,
                   {"--tokenizer", StrCat(kModels, "roberta/tokenizer.json")});
    }
    const Json done = Run(words).back();
    CHECK(done["accuracy"] == 1);
    CHECK(done["labels"] == Json({"LABEL_0", "LABEL_1"}));
  }
}

TEST_CASE("the types of tokens count") {
  // The same tokens, of one text and of two; each comes up among every tenth rows.
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    rows += i % 3 == 0
                ? "{\"text\": \"so\", \"text_pair\": \"good\", \"label\": 1}\n"
                : "{\"text\": \"so [SEP] good\", \"label\": 0}\n";
  }
  const Json done =
      Run(Arguments("bert-base",
                    WithoutDropout({"--data", WriteTemp("types.jsonl", rows),
                                    "--full", "--steps", "60"})))
          .back();
  CHECK(done["accuracy"] == 1);
  CHECK(done["validation_loss"] < 0.2);
}

TEST_CASE("budgets, micro-batches and lengths change no loss") {
  const Words plain = WithoutDropout({"--data", Films(), "--steps", "6"});
  const std::vector<Json> whole = Run(Arguments("bert-base", plain));
  const auto losses_with = [&](const Words& more) {
    return Losses(Run(Arguments("bert-base", With(plain, more))));
  };
  CHECK(losses_with({"--recompute", "auto", "--budget", "270KB"}) ==
        Losses(whole));
  const auto check_near = [](const std::vector<double>& losses,
                             const std::vector<double>& expected) {
    REQUIRE(losses.size() == expected.size());
    for (size_t i = 0; i < losses.size(); ++i) {
      CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    }
  };
  check_near(losses_with({"--micro-batches", "3"}), Losses(whole));
  // Texts of 5 to 8 tokens, some of which the shorter program holds.
  const auto alone = [&](const Words& more) {
    Words words = Arguments("bert-base", With(plain, more));
    *(std::ranges::find(words, "--batch") + 1) = "1";
    return Run(words);
  };
  const std::vector<Json> shorter = alone({"--lengths", "6,14"});
  check_near(Losses(shorter), Losses(alone({})));
  CHECK(shorter.back()["positions_computed"] <
        shorter.back()["positions_if_padded"]);
  const Json planned =
      Run(With(Arguments("bert-base", plain), {"--dry-run"})).back();
  CHECK(planned["arena_bytes"] == whole.back()["arena_bytes"]);
  CHECK(planned["fits"] == true);
}

TEST_CASE("a run that was stopped goes on to the same losses, with dropouts") {
  const std::string checkpoint = TempPath("run.safetensors");
  const auto arguments = [&](const Words& more) {
    return Arguments(
        "bert",
        With({"--data", Films("LABEL_0", "LABEL_2"), "--steps", "6"}, more));
  };
  const std::vector<Json> whole = Run(arguments({}));
  std::vector<double> losses =
      Losses(Run(arguments({"--stop-at", "3", "--save", checkpoint})));
  const std::vector<Json> rest = Run(arguments({"--resume", checkpoint}));
  std::ranges::copy(Losses(rest), std::back_inserter(losses));
  CHECK(losses == Losses(whole));
  CHECK(rest.back()["f1_macro"] == whole.back()["f1_macro"]);
  const Outcome other = RunStowage(
      arguments({"--resume", checkpoint, "--classifier-dropout", "0"}));
  CHECK(Contains(other.err, "resume: classifier-dropout was 0.3, is 0\n"));
}

TEST_CASE("labels of the model's head are kept, and others refused") {
  const Json done =
      Run(Arguments("bert", {"--data", Films("2", "LABEL_1"), "--steps", "1"}))
          .back();
  CHECK(done["labels"] == Json({"LABEL_0", "LABEL_1", "LABEL_2"}));
  const Outcome refused =
      RunStowage(Arguments("bert", {"--data", Films(), "--steps", "1"}));
  CHECK(refused.exit_code == 2);
  CHECK(Contains(refused.err,
                 "line 2 has the label \"bad\"; expected one of 3: a number "
                 "below, or a name as \"LABEL_0\""));
}

TEST_CASE("texts that are too long are cut or dropped, and counted") {
  const std::string data = WriteTemp(
      "long.jsonl",
      "{\"text\": \"good good good good good good good good\", \"label\": 0}\n"
      "{\"text\": \"bad\", \"label\": 1}\n"
      "{\"text\": \"so\", \"label\": 1}\n");
  const auto text_of = [&](const Words& more) {
    Words words = Arguments(
        "bert-base", With({"--data", data, "--steps", "1", "--full"}, more));
    *(std::ranges::find(words, "--seq") + 1) = "6";
    const Outcome outcome = RunStowage(words);
    CHECK(outcome.exit_code == 0);
    return outcome.err;
  };
  CHECK(Contains(text_of({}),
                 "finetune: 3 texts of 2 labels, 1 cut and 0 dropped at 6 "
                 "tokens; 1 are held out\n"));
  CHECK(Contains(text_of({"--too-long", "drop"}),
                 "finetune: 3 texts of 2 labels, 0 cut and 1 dropped at 6 "
                 "tokens; 1 are held out\n"));
}

TEST_CASE("models and options that do not suit the objective are refused") {
  const auto refused = [](const Words& words) {
    const Outcome outcome = RunStowage(words);
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  Words decoder = Arguments("", {"--data", Films()});
  *(std::ranges::find(decoder, "--weights") + 1) =
      "tests/goldens/pretrained/llama";
  CHECK(Contains(refused(decoder),
                 "is of the architecture LlamaForCausalLM, which predicts "
                 "tokens; --objective classify trains encoders"));
  Words encoder = Arguments("bert", {"--data", Films()});
  encoder.erase(encoder.begin() + 1, encoder.begin() + 3);
  CHECK(Contains(refused(encoder),
                 "is of the architecture BertForSequenceClassification, an "
                 "encoder, which predicts no next token; it is trained by "
                 "--objective classify"));
  for (const Words& option :
       {Words{"--pack"}, Words{"--beta", "1"}, Words{"--gamma", "1"},
        Words{"--prompt", "a"}, Words{"--temperature", "1"},
        Words{"--top-k", "1"}, Words{"--top-p", "0.5"}, Words{"--chat"},
        Words{"--sample", "3"}}) {
    CHECK(Contains(
        refused(Arguments("bert-base", With({"--data", Films()}, option))),
        StrCat("[objective] ", option[0])));
  }
  const auto of_data = [&](const Words& more) {
    return refused(Arguments("bert-base", With({"--data", Films()}, more)));
  };
  CHECK(Contains(of_data({"--save-merged", TempPath("a.safetensors")}),
                 "ends in .safetensors, and of a classifier a folder is "
                 "written"));
  CHECK(Contains(of_data({"--save-adapter", TempPath("a.gguf")}),
                 "ends in .gguf, and of a classifier a folder is written"));
  CHECK(Contains(of_data({"--full", "--save-adapter", TempPath("b")}),
                 "--full trains no adapter"));
  CHECK(Contains(of_data({"--attention-dropout", "1"}),
                 "the attention dropout of bert is 1"));
  CHECK(Contains(of_data({"--seq", "15", "--seq", "17"}), "seq"));
  CHECK(Contains(of_data({"--batch", "-1"}), "[train] batch -1 is below 1"));
  CHECK(Contains(of_data({"--batch", "4611686018427387904"}),
                 "[train] batch 4611686018427387904 of "));
  const std::string base = StrCat(kModels, "bert-base");
  CHECK(Contains(of_data({"--save-merged", base}),
                 "is in the folder that --weights reads"));
  CHECK(Contains(refused(Arguments("bert-base", {"--data", base})),
                 "is none of .jsonl, .csv and .tsv"));
}

}  // namespace
}  // namespace stowage::testing
