// Models that embed texts, trained as sentence-transformers trains them
// (tests/goldens/make_embedding_goldens.py).

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/files.h"
#include "cpu/cpu_backend.h"
#include "formats/weights_file.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "nn/contrastive.h"
#include "nn/lora.h"
#include "nn/model_options.h"
#include "nn/pretrained.h"
#include "runtime/session.h"
#include "train/adapter_files.h"
#include "train/fine_tuning.h"
#include "train/merged_model.h"
#include "train/sentence_transformer.h"
#include "train/training.h"

namespace stowage {
namespace {

const std::string kFolder = "tests/goldens/embeddings/";
constexpr int64_t kBatch = 3, kSeq = 9, kWidth = 16;
const std::vector<std::string> kNames = {"bert", "roberta", "qwen3"};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::vector<double> Golden(const std::string& name, const std::string& what) {
  std::ifstream in(kFolder + "training.csv");
  for (std::string line; std::getline(in, line);) {
    const std::string start = name + "," + what + ",";
    if (!line.starts_with(start)) continue;
    std::istringstream fields(line.substr(start.size()));
    std::vector<double> numbers;
    for (std::string number; std::getline(fields, number, ',');) {
      numbers.push_back(std::stod(number));
    }
    return numbers;
  }
  FAIL("no golden of " << name << ", " << what);
  return {};
}

void CheckNear(const std::vector<float>& found,
               const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CAPTURE(found[i]);
    CAPTURE(expected[i]);
    CHECK(std::abs(found[i] - expected[i]) <
          1e-5 * std::max(1.0, std::abs(expected[i])));
  }
}

// The rules of the folder, without the dropouts that the goldens are made without.
FineTuningOptions OptionsOf(const std::string& name, EmbeddingRules rules,
                            std::optional<LoraRules> lora = {}) {
  const auto settings = ReadSentenceTransformer(kFolder + name, kWidth);
  REQUIRE_MESSAGE(settings.ok(), settings.error().message);
  rules.pooling = *settings->pooling;
  rules.similarity = settings->similarity;
  FineTuningOptions options{.lora = std::move(lora), .embedding = rules};
  if (name != "qwen3") {
    options.embedder = {.hidden_dropout = 0, .attention_dropout = 0};
  }
  return options;
}

FineTuning Open(const std::string& path, const FineTuningOptions& options) {
  auto tuning = FineTuning::Open(path, options);
  REQUIRE_MESSAGE(tuning.ok(), tuning.error().message);
  return *std::move(tuning);
}

FineTuning Open(const std::string& name, const EmbeddingRules& rules = {},
                std::optional<LoraRules> lora = {}) {
  return Open(kFolder + name, OptionsOf(name, rules, std::move(lora)));
}

Training Start(const FineTuning& tuning, Backend& backend, int64_t seq = kSeq,
               int64_t micro_batches = 1) {
  TrainingSpec spec = {
      .model = tuning.ModelOf(ModelPurpose::kTrain, seq),
      .batch = kBatch,
      .training = {.optimizer = AdamW{.decay = 0}, .groups = tuning.groups()},
      .programs = {{.name = "evaluate",
                    .model = tuning.ModelOf(ModelPurpose::kEvaluate, seq),
                    .batch = kBatch}}};
  spec.optimizations = NoOptimizations();
  spec.optimizations->micro_batches = {micro_batches};
  auto training = Train(std::move(spec), backend);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  training->Initialize(1);
  const Status loaded = tuning.LoadBase(training->step());
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  return *std::move(training);
}

// The batch of the goldens, with the first `texts` of each example; `padding` stands behind each
// text.
void WriteBatch(Runner& runner, int64_t texts, int64_t seq, int32_t padding) {
  std::vector<int32_t> tokens, lengths;
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t k = 0; k < texts; ++k) {
      const int64_t length = 4 + (2 * b + 3 * k) % 5;
      lengths.push_back(static_cast<int32_t>(length));
      for (int64_t t = 0; t < seq; ++t) {
        tokens.push_back(
            t < length ? static_cast<int32_t>(5 + (7 * t + 11 * b + 3 * k) % 27)
                       : padding);
      }
    }
  }
  REQUIRE(runner.Write("tokens", tokens).ok());
  REQUIRE(runner.Write("lengths", lengths).ok());
}

std::vector<float> Embeddings(Training& training, int64_t texts,
                              int64_t seq = kSeq, int32_t padding = 1) {
  Runner& runner = *training.Find("evaluate");
  WriteBatch(runner, texts, seq, padding);
  REQUIRE(runner.Step() == StepCode::kOk);
  std::vector<float> embeddings(static_cast<size_t>(kBatch * texts * kWidth));
  REQUIRE(runner.Read("embeddings", &embeddings).ok());
  return embeddings;
}

std::vector<float> TakeSteps(Training& training, int64_t texts,
                             int64_t seq = kSeq, int32_t padding = 1) {
  Runner& step = training.step();
  std::vector<float> losses;
  for (int64_t i = 1; i <= 3; ++i) {
    WriteBatch(step, texts, seq, padding);
    REQUIRE(step.Write("lr", 0.01f).ok());
    REQUIRE(step.Write("step", i).ok());
    REQUIRE(step.Step() == StepCode::kOk);
    losses.push_back(*step.ReadScalar("loss"));
  }
  return losses;
}

// lora_A as the goldens have it.
void SetAdapters(Runner& runner) {
  for (const ValueId id : runner.graph().Leaves(Role::kParam)) {
    const ValueInfo& info = runner.graph().value(id);
    if (!info.name.ends_with(".lora_A.weight")) continue;
    std::vector<float> numbers;
    for (int64_t i = 0; i < info.type.shape.num_elements(); ++i) {
      numbers.push_back(static_cast<float>(i % 7) * 0.05f - 0.15f);
    }
    REQUIRE(runner.Write(info.name, numbers).ok());
  }
}

TEST_CASE("embeddings are those of sentence-transformers") {
  for (const std::string& name : kNames) {
    INFO(name);
    const FineTuning tuning = Open(name, {.documents = 2});
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training training = Start(tuning, *cpu);
    std::vector<double> expected = Golden(name, "embeddings");
    if (tuning.options().embedding->similarity == Similarity::kCosine) {
      for (size_t at = 0; at < expected.size(); at += kWidth) {
        double squares = 0;
        for (size_t i = 0; i < kWidth; ++i) {
          squares += expected[at + i] * expected[at + i];
        }
        for (size_t i = 0; i < kWidth; ++i) {
          expected[at + i] /= std::sqrt(squares);
        }
      }
    }
    CheckNear(Embeddings(training, 3), expected);
    // Neither the tokens of padding nor its size count.
    CHECK(Embeddings(training, 3, kSeq, 30) == Embeddings(training, 3));
    Training wide = Start(tuning, *cpu, 13);
    CheckNear(Embeddings(wide, 3, 13, 22), expected);
  }
}

TEST_CASE("steps have the losses of MultipleNegativesRankingLoss") {
  const struct {
    std::string what;
    EmbeddingRules rules;
  } kinds[] = {{"pairs", {}},
               {"negatives", {.documents = 2}},
               {"symmetric", {.symmetric = true}}};
  for (const std::string& name : kNames) {
    for (const auto& kind : kinds) {
      INFO(name << ", " << kind.what);
      const FineTuning tuning = Open(name, kind.rules);
      const auto cpu = MakeCpuBackend({.threads = 2});
      Training training = Start(tuning, *cpu);
      CheckNear(TakeSteps(training, 1 + kind.rules.documents),
                Golden(name, kind.what));
    }
  }
}

TEST_CASE("micro-batches take the step of the whole batch") {
  for (const std::string& name : kNames) {
    INFO(name);
    const EmbeddingRules rules = {.symmetric = true};
    const FineTuning tuning = Open(name, rules);
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training training = Start(tuning, *cpu, kSeq, /*micro_batches=*/3);
    CHECK(training.plan().step.price.micro_batches == 3);
    CheckNear(TakeSteps(training, 2), Golden(name, "symmetric"));
  }
}

TEST_CASE("adapters of all linear layers learn as PEFT's") {
  for (const std::string& name : kNames) {
    INFO(name);
    const FineTuning tuning =
        Open(name, {}, LoraRules{.rank = 4, .alpha = 6, .targets = {}});
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training training = Start(tuning, *cpu);
    SetAdapters(training.step());
    CheckNear(TakeSteps(training, 2), Golden(name, "adapters"));
  }
}

TEST_CASE("dropouts are those of config.json, and none is of a head") {
  const auto rates_of = [](const EmbedderOptions& embedder) {
    FineTuningOptions options = OptionsOf("bert", {});
    options.embedder = embedder;
    const auto graph = Open(kFolder + "bert", options)
                           .ModelOf(ModelPurpose::kTrain, kSeq)(kBatch);
    REQUIRE(graph.ok());
    std::vector<double> rates;
    for (const Node& node : graph->nodes()) {
      if (node.op == OpKind::kDropout) rates.push_back(node.attrs.Float("p"));
    }
    return rates;
  };
  // Of the embeddings, then of each block's attention and two branches.
  CHECK(rates_of({}) == std::vector<double>{0.1, 0.2, 0.1, 0.1, 0.2, 0.1, 0.1});
  CHECK(rates_of({.hidden_dropout = 0, .attention_dropout = 0}).empty());
}

std::string TempPath(const std::string& name) {
  const char* const temp = std::getenv("TEST_TMPDIR");
  return (std::filesystem::path(temp ? temp : "/tmp") / name).string();
}

TEST_CASE("a saved folder has the model without a head, and its embeddings") {
  for (const std::string& name : kNames) {
    INFO(name);
    const FineTuning tuning =
        Open(name, {}, LoraRules{.rank = 4, .targets = {}});
    const auto cpu = MakeCpuBackend({.threads = 1});
    Training trained = Start(tuning, *cpu);
    SetAdapters(trained.step());
    TakeSteps(trained, 2);
    const std::string folder = TempPath(name + ".tuned");
    const auto settings = ReadSentenceTransformer(kFolder + name, kWidth);
    const auto files = ModelFolder::Claim(
        folder, tuning.base(), kFolder + name + "/tokenizer.json",
        SentenceTransformerFiles(*settings, kWidth));
    REQUIRE_MESSAGE(files.ok(), files.error().message);
    const Status saved = SaveModelFolder(tuning, trained.step(), *files);
    REQUIRE_MESSAGE(saved.ok(), saved.error().message);
    // The tensors, pooler included, have the names of the file.
    const auto before = WeightsFile::Open(kFolder + name);
    const auto after = WeightsFile::Open(folder);
    REQUIRE(after.ok());
    REQUIRE(after->tensors().size() == before->tensors().size());
    for (size_t i = 0; i < after->tensors().size(); ++i) {
      CHECK(after->tensors()[i].name == before->tensors()[i].name);
    }
    FineTuningOptions options = OptionsOf(name, {});
    Training again = Start(Open(folder, options), *cpu);
    const std::vector<float> expected = Embeddings(trained, 2);
    CheckNear(Embeddings(again, 2), {expected.begin(), expected.end()});
    const auto reread = ReadSentenceTransformer(folder, kWidth);
    REQUIRE_MESSAGE(reread.ok(), reread.error().message);
    CHECK(reread->pooling == settings->pooling);
    CHECK(reread->similarity == settings->similarity);
    CHECK(reread->normalizes == (name == "bert"));
    CHECK(reread->prompts == settings->prompts);
    const auto config = ReadFile(folder + "/config.json");
    CHECK(Contains(*config, name == "bert"      ? "\"BertModel\""
                            : name == "roberta" ? "\"RobertaModel\""
                                                : "\"Qwen3Model\""));
  }
}

TEST_CASE("an adapter has the names of the model without a head") {
  for (const std::string& name : kNames) {
    INFO(name);
    const LoraRules rules{.rank = 4, .alpha = 6, .targets = {}};
    const FineTuning tuning = Open(name, {}, rules);
    const auto cpu = MakeCpuBackend({.threads = 1});
    Training trained = Start(tuning, *cpu);
    SetAdapters(trained.step());
    TakeSteps(trained, 2);
    const std::string folder = TempPath(name + ".adapter");
    const auto files = AdapterFiles::Claim(folder);
    REQUIRE(files.ok());
    REQUIRE(SaveAdapter(tuning, trained.step(), *files).ok());
    const auto config = ReadFile(AdapterConfigPath(folder));
    CHECK(Contains(*config, "\"task_type\": \"FEATURE_EXTRACTION\""));
    CHECK(!Contains(*config, "modules_to_save"));
    const auto file = WeightsFile::Open(AdapterWeightsPath(folder));
    REQUIRE(file.ok());
    const std::string first = name == "qwen3"
                                  ? "layers.0.self_attn.q_proj"
                                  : "encoder.layer.0.attention.self.query";
    CHECK(file->Find("base_model.model." + first + ".lora_A.weight") !=
          nullptr);
    // "dense" alone would also be the pooler's, which has no adapter.
    CHECK(
        Contains(*config, name == "qwen3"
                              ? "\"q_proj\""
                              : "\"encoder.layer.0.attention.output.dense\""));
    const auto read = ReadAdapterRules(folder);
    REQUIRE_MESSAGE(read.ok(), read.error().message);
    const FineTuning continued = Open(name, {}, *read);
    Training loaded = Start(continued, *cpu);
    const Status status = LoadAdapter(continued, folder, loaded.step());
    REQUIRE_MESSAGE(status.ok(), status.error().message);
    CHECK(Embeddings(loaded, 2) == Embeddings(trained, 2));
  }
}

TEST_CASE("tensors of a head are not read, and others are refused") {
  const auto opened = [](const std::string& path) {
    return PretrainedModel::OpenEmbedder(path, {});
  };
  const auto classifier = opened("tests/goldens/encoders/bert");
  REQUIRE_MESSAGE(classifier.ok(), classifier.error().message);
  CHECK(classifier->encoder()->labels.empty());
  CHECK(classifier->unread() ==
        std::vector<std::string>{"bert.pooler.dense.bias",
                                 "bert.pooler.dense.weight", "classifier.bias",
                                 "classifier.weight"});
  REQUIRE(classifier->kept().size() == 2);
  CHECK(classifier->kept()[0]->name == "bert.pooler.dense.bias");
  // A decoder with a head, and one whose names have the prefix.
  const auto decoder = opened("tests/goldens/pretrained/qwen3");
  REQUIRE_MESSAGE(decoder.ok(), decoder.error().message);
  CHECK(decoder->PublishedName("model.norm.weight") == "norm.weight");
  CHECK(Contains(opened("tests/goldens/pretrained/gpt2").error().message,
                 "is of the family gpt2, which embeds no texts"));
  CHECK(Contains(opened("tests/goldens/pretrained/llama.gguf").error().message,
                 "is a GGUF file"));
  CHECK(Contains(PretrainedModel::Open(kFolder + "qwen3").error().message,
                 "is of the family qwen3 without a head"));
  CHECK(Contains(
      PretrainedModel::OpenEmbedder(kFolder + "qwen3", {.hidden_dropout = 0.1})
          .error()
          .message,
      "is a decoder of the family qwen3, and a hidden dropout of 0.1 is "
      "given"));
}

}  // namespace
}  // namespace stowage
