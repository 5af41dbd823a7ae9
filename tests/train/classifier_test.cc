// Encoders that classify texts, trained as transformers and PEFT train them
// (tests/goldens/make_encoder_goldens.py).

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/files.h"
#include "cpu/cpu_backend.h"
#include "formats/gguf.h"
#include "formats/weights_file.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "nn/encoder.h"
#include "nn/lora.h"
#include "nn/model_options.h"
#include "nn/pretrained.h"
#include "runtime/checkpoint.h"
#include "runtime/session.h"
#include "train/adapter_files.h"
#include "train/fine_tuning.h"
#include "train/gguf_export.h"
#include "train/merged_model.h"
#include "train/training.h"

namespace stowage {
namespace {

const std::string kFolder = "tests/goldens/encoders/";
constexpr int64_t kBatch = 3, kLabels = 3;
constexpr int64_t kLengths[kBatch] = {9, 5, 7};
const std::vector<std::string> kNames = {"bert", "roberta", "distilbert",
                                         "electra"};

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

double Difference(const std::vector<float>& actual,
                  const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  double difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(std::isfinite(actual[i]));  // std::max passes NaN over
    difference = std::max(difference, std::abs(actual[i] - expected[i]));
  }
  return difference;
}

// Without the dropouts that the goldens are made without.
ClassifierOptions NoDropout(std::vector<std::string> labels = {}) {
  return {.labels = std::move(labels),
          .hidden_dropout = 0,
          .attention_dropout = 0,
          .classifier_dropout = 0};
}

FineTuning Open(const std::string& name, std::optional<LoraRules> lora,
                const ClassifierOptions& classifier = NoDropout()) {
  auto tuning = FineTuning::Open(kFolder + name,
                                 {.lora = lora, .classifier = classifier});
  REQUIRE_MESSAGE(tuning.ok(), tuning.error().message);
  return *std::move(tuning);
}

Training Start(const FineTuning& tuning, Backend& backend, int64_t seq) {
  auto training = Train(
      {.model = tuning.ModelOf(ModelPurpose::kTrain, seq),
       .batch = kBatch,
       .training = {.optimizer = AdamW{.decay = 0}, .groups = tuning.groups()},
       .programs = {{.name = "logits",
                     .model = tuning.ModelOf(ModelPurpose::kGenerate, seq),
                     .batch = kBatch},
                    {.name = "evaluate",
                     .model = tuning.ModelOf(ModelPurpose::kEvaluate, seq),
                     .batch = kBatch}}},
      backend);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  training->Initialize(1);
  const Status loaded = tuning.LoadBase(training->step());
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  return *std::move(training);
}

// The batch of the goldens; `padding` stands behind each text.
void WriteBatch(Runner& runner, int64_t seq, int32_t padding = 1) {
  std::vector<int32_t> tokens, types, lengths;
  for (int64_t b = 0; b < kBatch; ++b) {
    lengths.push_back(static_cast<int32_t>(kLengths[b]));
    for (int64_t t = 0; t < seq; ++t) {
      const bool is_text = t < kLengths[b];
      tokens.push_back(is_text ? static_cast<int32_t>(5 + (7 * t + 11 * b) % 27)
                               : padding);
      types.push_back(is_text && t >= 3 ? 1 : 0);
    }
  }
  REQUIRE(runner.Write("tokens", tokens).ok());
  REQUIRE(runner.Write("lengths", lengths).ok());
  const Graph& graph = runner.graph();
  if (graph.Find("token_types")) {
    REQUIRE(runner.Write("token_types", types).ok());
  }
  if (graph.Find("labels")) {
    REQUIRE(runner.Write("labels", std::vector<int32_t>{0, 1, 2}).ok());
  }
}

std::vector<float> Logits(Training& training, int64_t seq,
                          int32_t padding = 1) {
  Runner& runner = *training.Find("logits");
  WriteBatch(runner, seq, padding);
  REQUIRE(runner.Step() == StepCode::kOk);
  std::vector<float> logits(static_cast<size_t>(kBatch * kLabels));
  REQUIRE(runner.Read("logits", &logits).ok());
  return logits;
}

std::vector<float> TakeSteps(Training& training, int64_t seq,
                             int32_t padding = 1) {
  Runner& step = training.step();
  std::vector<float> losses;
  for (int64_t i = 1; i <= 4; ++i) {
    WriteBatch(step, seq, padding);
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

TEST_CASE("an encoder's logits and the losses of its steps are transformers'") {
  for (const std::string& name : kNames) {
    INFO(name);
    const FineTuning tuning = Open(name, std::nullopt);
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training training = Start(tuning, *cpu, 9);
    CHECK(Difference(Logits(training, 9), Golden(name, "logits")) < 1e-5);
    CHECK(Difference(TakeSteps(training, 9), Golden(name, "losses")) < 1e-5);
  }
}

TEST_CASE("adapters and the head beside them learn as PEFT's") {
  for (const std::string& name : kNames) {
    INFO(name);
    const FineTuning tuning =
        Open(name, LoraRules{.rank = 4, .alpha = 6, .targets = {}});
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training training = Start(tuning, *cpu, 9);
    SetAdapters(training.step());
    CHECK(Difference(TakeSteps(training, 9),
                     Golden(name, "losses of adapters")) < 1e-5);
    // Of both blocks, each with six layers: 4 of (16, 16), (16, 24) and back.
    const int64_t adapters = 2 * 4 * (4 * 32 + 2 * 40);
    const int64_t head = 16 * 16 + 16 + 3 * 16 + 3;
    CHECK(tuning.trainable_params() == adapters + head);
  }
}

// In the order of the graph.
std::vector<double> DropoutsOf(const FineTuning& tuning) {
  const auto graph = tuning.ModelOf(ModelPurpose::kTrain, 9)(kBatch);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  std::vector<double> rates;
  for (const Node& node : graph->nodes()) {
    if (node.op == OpKind::kDropout) rates.push_back(node.attrs.Float("p"));
  }
  return rates;
}

TEST_CASE("dropouts are where transformers has them, at the config's rates") {
  for (const std::string& name : kNames) {
    INFO(name);
    CHECK(DropoutsOf(Open(name, std::nullopt, {})) == Golden(name, "dropouts"));
    CHECK(DropoutsOf(Open(name, std::nullopt)).empty());
  }
  ClassifierOptions other = NoDropout();
  other.classifier_dropout = 0.4;
  CHECK(DropoutsOf(Open("bert", std::nullopt, other)) ==
        std::vector<double>{0.4});
}

TEST_CASE("attention with a dropout that drops nothing is attention") {
  // One element in 10^9 is dropped, and none of these few.
  ClassifierOptions rare = NoDropout();
  rare.attention_dropout = 1e-9;
  for (const std::string& name : kNames) {
    INFO(name);
    const FineTuning tuning = Open(name, std::nullopt, rare);
    CHECK(DropoutsOf(tuning).size() == 2);
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training training = Start(tuning, *cpu, 13);
    REQUIRE(training.step().Write("seed", int64_t{5}).ok());
    CHECK(Difference(TakeSteps(training, 13, 22), Golden(name, "losses")) <
          1e-5);
  }
}

TEST_CASE("no result depends on the padding, neither its tokens nor its size") {
  for (const std::string& name : kNames) {
    INFO(name);
    const FineTuning tuning = Open(name, std::nullopt);
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training tight = Start(tuning, *cpu, 9);
    Training wide = Start(tuning, *cpu, 13);
    CHECK(Logits(tight, 9, 1) == Logits(tight, 9, 30));
    CHECK(Difference(Logits(wide, 13, 22), Golden(name, "logits")) < 1e-5);
    CHECK(Difference(TakeSteps(wide, 13, 22), Golden(name, "losses")) < 1e-5);
  }
}

TEST_CASE("an evaluation predicts the label of the largest logit") {
  const FineTuning tuning = Open("bert", std::nullopt);
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Start(tuning, *cpu, 9);
  Runner& evaluate = *training.Find("evaluate");
  WriteBatch(evaluate, 9);
  REQUIRE(evaluate.Step() == StepCode::kOk);
  const std::vector<double> golden = Golden("bert", "logits");
  std::vector<int32_t> predictions(kBatch);
  REQUIRE(evaluate.Read("predictions", &predictions).ok());
  for (int64_t b = 0; b < kBatch; ++b) {
    const auto row = golden.begin() + b * kLabels;
    CHECK(predictions[static_cast<size_t>(b)] ==
          std::max_element(row, row + kLabels) - row);
  }
  CHECK(std::abs(*evaluate.ReadScalar("loss") -
                 Golden("bert", "losses").front()) < 1e-5);
}

TEST_CASE("a bare encoder is given a head, which adapters' checkpoints hold") {
  const ClassifierOptions labels = NoDropout({"a", "b", "c", "d", "e"});
  const LoraRules rules{.rank = 4, .targets = {}};
  const FineTuning bert = Open("bert-base", rules, labels);
  // BERT's pooler is the first layer of its head, as transformers has it.
  CHECK(bert.base().new_params() ==
        std::vector<std::string>{"classifier.weight", "classifier.bias"});
  CHECK(bert.base().unread().empty());
  CHECK(bert.base().encoder()->labels.size() == 5);
  const auto base = bert.BaseOfCheckpoints();
  REQUIRE(base.ok());
  CHECK(base->params.size() == bert.base().params().size() - 2);
  const FineTuning roberta = Open("roberta-base", rules, labels);
  CHECK(roberta.base().new_params() ==
        std::vector<std::string>{
            "classifier.dense.weight", "classifier.dense.bias",
            "classifier.out_proj.weight", "classifier.out_proj.bias"});
  CHECK(roberta.base().unread() ==
        std::vector<std::string>{"pooler.dense.bias", "pooler.dense.weight"});
  // The head of a file is trained too, so it is no part of what stays.
  const auto whole = Open("bert", rules).BaseOfCheckpoints();
  REQUIRE(whole.ok());
  for (const std::string param :
       {"bert.pooler.dense.weight", "bert.pooler.dense.bias",
        "classifier.weight", "classifier.bias"}) {
    CHECK(std::ranges::count(whole->params, param) == 0);
  }
}

std::string TempPath(const std::string& name) {
  const char* const temp = std::getenv("TEST_TMPDIR");
  return (std::filesystem::path(temp ? temp : "/tmp") / name).string();
}

TEST_CASE("an adapter is kept with the head that was trained beside it") {
  const LoraRules rules{.rank = 4, .alpha = 6, .targets = {}};
  for (const std::string& name : kNames) {
    INFO(name);
    const FineTuning tuning = Open(name, rules);
    const auto cpu = MakeCpuBackend({.threads = 1});
    Training trained = Start(tuning, *cpu, 9);
    SetAdapters(trained.step());
    TakeSteps(trained, 9);
    const std::string folder = TempPath(name + ".adapter");
    const auto files = AdapterFiles::Claim(folder);
    REQUIRE(files.ok());
    REQUIRE(SaveAdapter(tuning, trained.step(), *files).ok());
    Training loaded = Start(tuning, *cpu, 9);
    const Status status = LoadAdapter(tuning, folder, loaded.step());
    REQUIRE_MESSAGE(status.ok(), status.error().message);
    CHECK(Logits(loaded, 9) == Logits(trained, 9));
    const auto config = ReadFile(AdapterConfigPath(folder));
    REQUIRE(config.ok());
    CHECK(Contains(*config, "\"task_type\": \"SEQ_CLS\""));
    CHECK(Contains(*config, "\"modules_to_save\""));
    const auto read = ReadAdapterRules(folder, &tuning.base().encoder()->names);
    REQUIRE_MESSAGE(read.ok(), read.error().message);
    CHECK(read->rank == 4);
    // Without a classifier there is nothing that is trained whole.
    const auto refused = ReadAdapterRules(folder);
    REQUIRE(!refused.ok());
    CHECK(Contains(refused.error().message, "has modules_to_save"));
    const auto file = WeightsFile::Open(AdapterWeightsPath(folder));
    REQUIRE(file.ok());
    // Six layers of two blocks, and the head's two.
    CHECK(file->tensors().size() == 2 * 6 * 2 + 4);
  }
}

TEST_CASE("an adapter of PEFT's is read with the classifier beside it") {
  const std::string folder = kFolder + "bert-adapter";
  const auto rules = ReadAdapterRules(folder, &BertNames());
  REQUIRE_MESSAGE(rules.ok(), rules.error().message);
  CHECK(rules->rank == 2);
  const FineTuning tuning = Open("bert", *rules);
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Start(tuning, *cpu, 9);
  const Status loaded = LoadAdapter(tuning, folder, training.step());
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  CHECK(Difference(Logits(training, 9),
                   Golden("bert", "logits of an adapter")) < 1e-5);
  // A pooler that is new has no weights but the adapter's.
  const FineTuning bare =
      Open("roberta-base", *rules, NoDropout({"a", "b", "c"}));
  Training of_bare = Start(bare, *cpu, 9);
  const Status lacks = LoadAdapter(bare, folder, of_bare.step());
  REQUIRE(!lacks.ok());
  CHECK(Contains(lacks.error().message, "lacks \"base_model.model."));
}

TEST_CASE("what is trained whole beside the head is refused by name") {
  const auto read = [](const std::string& module, const EncoderNames& names) {
    const std::string folder = TempPath("modules");
    std::filesystem::create_directories(folder);
    std::ofstream(AdapterConfigPath(folder))
        << R"({"peft_type": "LORA", "r": 2, "lora_alpha": 3, "target_modules": )"
        << R"(["query"], "modules_to_save": [")" << module << "\"]}";
    const auto rules = ReadAdapterRules(folder, &names);
    return rules.ok() ? std::string() : rules.error().message;
  };
  const EncoderNames& bert = BertNames();
  for (const std::string module :
       {"classifier", "score", "pooler", "pooler.dense", "bert.pooler",
        "bert.pooler.dense"}) {
    CAPTURE(module);
    CHECK(read(module, bert).empty());
  }
  for (const std::string module :
       {"dense", "embeddings", "bert", "bert.encoder", "oler"}) {
    CAPTURE(module);
    CHECK(Contains(read(module, bert),
                   "has \"" + module + "\" in modules_to_save"));
  }
  const EncoderNames& roberta = EncoderFamilies()[1];
  CHECK(read("classifier", roberta).empty());
  CHECK(read("classifier.out_proj", roberta).empty());
  CHECK(Contains(read("pooler", roberta), "has \"pooler\""));
}

TEST_CASE("weights are kept by the names that transformers has") {
  for (const std::string& name : kNames) {
    INFO(name);
    const FineTuning tuning = Open(name, std::nullopt);
    const auto cpu = MakeCpuBackend({.threads = 1});
    Training training = Start(tuning, *cpu, 9);
    const std::string path = TempPath(name + ".safetensors");
    const auto claimed = OutputFile::Claim(path);
    REQUIRE(claimed.ok());
    REQUIRE(SaveWeights(training.step(), *claimed).ok());
    const auto saved = WeightsFile::Open(path);
    REQUIRE_MESSAGE(saved.ok(), saved.error().message);
    const WeightsFile& published = tuning.base().file();
    CHECK(saved->tensors().size() == published.tensors().size());
    for (const WeightTensor& tensor : published.tensors()) {
      INFO(tensor.name);
      const WeightTensor* const ours = saved->Find(tensor.name);
      REQUIRE(ours != nullptr);
      CHECK(ours->shape == tensor.shape);
    }
  }
}

TEST_CASE("a classifier's adapters are not written as GGUF") {
  const FineTuning tuning = Open("bert", LoraRules{.rank = 4, .targets = {}});
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Start(tuning, *cpu, 9);
  const auto file = OutputFile::Claim(TempPath("refused"));
  REQUIRE(file.ok());
  const Status adapter = SaveAdapterGguf(tuning, training.step(), *file);
  REQUIRE(!adapter.ok());
  CHECK(Contains(adapter.error().message, "not written as a GGUF file"));
  const auto plan = GgufExport::Plan(tuning, std::nullopt, GgufMetadata());
  REQUIRE(!plan.ok());
  CHECK(Contains(plan.error().message, "not written as a GGUF file"));
}

TEST_CASE("labels and models that do not fit are refused by name") {
  const auto error_of = [](const std::string& path,
                           std::optional<ClassifierOptions> classifier) {
    const auto tuning = FineTuning::Open(path, {.classifier = classifier});
    REQUIRE(!tuning.ok());
    return tuning.error();
  };
  CHECK(Contains(
      error_of(kFolder + "bert", NoDropout({"good", "bad", "so"})).message,
      "classifies texts as \"LABEL_0\", \"LABEL_1\" and \"LABEL_2\", and the "
      "labels \"good\", \"bad\" and \"so\" are given"));
  CHECK(Contains(error_of(kFolder + "bert-base", NoDropout({"one"})).message,
                 "1 labels are given; expected at least 2"));
  ClassifierOptions all_dropped = NoDropout();
  all_dropped.attention_dropout = 1;
  CHECK(Contains(error_of(kFolder + "bert", all_dropped).message,
                 "the attention dropout of bert is 1; expected 0 or above, "
                 "and below 1"));
  const Error encoder = error_of(kFolder + "roberta", std::nullopt);
  CHECK(encoder.code == ErrorCode::kUnsupported);
  CHECK(Contains(encoder.message, "is an encoder of the family roberta"));
  const Error decoder = error_of("tests/goldens/pretrained/gpt2", NoDropout());
  CHECK(decoder.code == ErrorCode::kUnsupported);
  CHECK(Contains(decoder.message, "is a language model of the family gpt2"));
}

TEST_CASE("BERT base and RoBERTa large have as many params as published") {
  const auto count = [](const EncoderConfig& config) {
    const auto graph =
        BuildEncoder(config, ModelPurpose::kTrain, {.batch = 1, .seq = 8});
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    int64_t elements = 0;
    for (const ValueId id : graph->Leaves(Role::kParam)) {
      elements += graph->value(id).type.shape.num_elements();
    }
    return elements;
  };
  // transformers' num_parameters() of bert-base-uncased and roberta-large with two labels.
  CHECK(count({.name = "bert",
               .names = BertNames(),
               .layers = 12,
               .heads = 12,
               .width = 768,
               .hidden = 3072,
               .vocabulary = 30522,
               .max_seq = 512,
               .types = 2,
               .labels = {"no", "yes"}}) == 109'483'778);
  CHECK(count({.name = "roberta",
               .names = EncoderFamilies()[1],
               .layers = 24,
               .heads = 16,
               .width = 1024,
               .hidden = 4096,
               .vocabulary = 50265,
               .max_seq = 512,
               .first_position = 2,
               .types = 1,
               .labels = {"no", "yes"},
               .eps = 1e-5}) == 355'361'794);
}

}  // namespace
}  // namespace stowage
