// Tiny models of the families of decoders (nn/llama.h), from Hugging Face's folders
// and from GGUF files, against transformers (tests/goldens/make_family_goldens.py).

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/files.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/weights_file.h"
#include "ir/graph.h"
#include "nn/gguf_form.h"
#include "nn/llama.h"
#include "nn/model_options.h"
#include "nn/pretrained.h"
#include "planner/fit/memory_optimizations.h"
#include "runtime/session.h"
#include "tests/support/files.h"
#include "tests/train/changed_folder.h"
#include "train/fine_tuning.h"
#include "train/gguf_export.h"
#include "train/merged_model.h"
#include "train/training.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSeq = 12, kShort = 6, kVocabulary = 64;
const std::string kGoldens = "tests/goldens/families/";

struct Family {
  std::string name;
  bool has_gguf = true;
};
const Family kFamilies[] = {{"phi3"},
                            {"gemma2"},
                            {"gemma3"},
                            {"smollm3"},
                            {"olmo2"},
                            {"granite"},
                            {"gptneox"},
                            {"gptneox_serial", false},
                            {"mixtral"},
                            {"qwen2moe"},
                            {"qwen2moe_some", false},
                            {"qwen3moe"},
                            {"olmoe"}};

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const Family& family : kFamilies) {
    files.push_back(family.name);
    if (family.has_gguf) files.push_back(family.name + ".gguf");
  }
  return files;
}

FineTuning Open(const std::string& path, std::optional<LoraRules> lora) {
  auto tuning = FineTuning::Open(path, {.lora = std::move(lora)});
  REQUIRE_MESSAGE(tuning.ok(), tuning.error().message);
  return *std::move(tuning);
}

std::vector<int32_t> Tokens(int64_t first, int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = first; i < first + count; ++i) {
    tokens.push_back(static_cast<int32_t>((7 * i + 3) % kVocabulary));
  }
  return tokens;
}

// A run, with programs that read whole texts and one that reads a token at a time.
Training Start(const FineTuning& tuning, Backend& backend) {
  const auto reading = [&](int64_t seq, std::optional<int64_t> cache) {
    return tuning.ModelOf(ModelPurpose::kGenerate, seq, cache);
  };
  auto training = Train(
      {.model = tuning.ModelOf(ModelPurpose::kTrain, kSeq),
       .batch = 1,
       .training = {.optimizer = AdamW{.decay = 0}, .groups = tuning.groups()},
       .programs = {{.name = "12", .model = reading(kSeq, {})},
                    {.name = "6", .model = reading(kShort, {})},
                    {.name = "token", .model = reading(1, kSeq)},
                    {.name = "tokens", .model = reading(kShort, kSeq)}}},
      backend);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  training->Initialize(1);
  const Status loaded = tuning.LoadBase(training->step());
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  return *std::move(training);
}

float StepOnce(Training& training, int64_t number, float rate) {
  Runner& step = training.step();
  REQUIRE(step.Write("tokens", Tokens(0, kSeq)).ok());
  REQUIRE(step.Write("targets", Tokens(1, kSeq)).ok());
  REQUIRE(step.Write("lr", rate).ok());
  REQUIRE(step.Write("step", number).ok());
  REQUIRE(step.Step() == StepCode::kOk);
  std::vector<float> loss(1);
  REQUIRE(step.Read("loss", &loss).ok());
  return loss[0];
}

// Behind each token of a text.
std::vector<float> Logits(Training& training, int64_t count) {
  Runner& runner = *training.Find(StrCat(count));
  REQUIRE(runner.Write("tokens", Tokens(0, count)).ok());
  REQUIRE(runner.Step() == StepCode::kOk);
  std::vector<float> logits(static_cast<size_t>(count * kVocabulary));
  REQUIRE(runner.Read("logits", &logits).ok());
  return logits;
}

// Behind the last of a text that is read in parts.
std::vector<float> CachedLogits(Training& training, const char* program,
                                int64_t part) {
  Runner& runner = *training.Find(program);
  std::vector<float> logits(static_cast<size_t>(kVocabulary));
  REQUIRE(runner.ClearCaches().ok());
  for (int64_t first = 0; first < kSeq; first += part) {
    REQUIRE(runner.Write("tokens", Tokens(first, part)).ok());
    REQUIRE(runner
                .Write("position",
                       std::vector<int32_t>{static_cast<int32_t>(first)})
                .ok());
    REQUIRE(runner.Step() == StepCode::kOk);
  }
  REQUIRE(runner.Read("logits", &logits).ok());
  return logits;
}

// The largest difference beside the largest golden.
double Distance(std::span<const float> ours, std::span<const double> golden) {
  REQUIRE(ours.size() == golden.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    REQUIRE(std::isfinite(ours[i]));  // std::max passes NaN over
    largest = std::max(largest, std::abs(golden[i]));
    difference = std::max(difference, std::abs(ours[i] - golden[i]));
  }
  return difference / largest;
}

struct Goldens {
  std::map<std::pair<int64_t, int64_t>, std::vector<double>> logits;
  std::vector<double> losses;
  std::vector<double> adapted = {};  // of models with experts
};

Goldens Read(const std::string& name) {
  Goldens goldens;
  std::ifstream in(StrCat(kGoldens, name, ".csv"));
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string what, field;
    std::getline(fields, what, ',');
    std::vector<double> numbers;
    while (std::getline(fields, field, ',')) {
      numbers.push_back(std::stod(field));
    }
    if (what == "losses" || what == "adapted") {
      (what == "losses" ? goldens.losses : goldens.adapted) = numbers;
      continue;
    }
    REQUIRE(numbers.size() == 2 + kVocabulary);
    const std::pair at(static_cast<int64_t>(numbers[0]),
                       static_cast<int64_t>(numbers[1]));
    goldens.logits[at].assign(numbers.begin() + 2, numbers.end());
  }
  REQUIRE(goldens.logits.size() == 4);
  REQUIRE(goldens.losses.size() == 4);
  return goldens;
}

TEST_CASE("logits and losses of every family are those of transformers") {
  for (const std::string& name : Files()) {
    INFO(name);
    const Goldens goldens = Read(name);
    const auto cpu = MakeCpuBackend({.threads = 2});
    const FineTuning tuning = Open(kGoldens + name, std::nullopt);
    Training training = Start(tuning, *cpu);
    double worst = 0;
    for (const auto& [at, golden] : goldens.logits) {
      const int64_t count = at.first, position = at.second;
      INFO(count << " tokens, position " << position);
      const std::vector<float> logits = Logits(training, count);
      const double distance = Distance(
          std::span(logits).subspan(static_cast<size_t>(position * kVocabulary),
                                    static_cast<size_t>(kVocabulary)),
          golden);
      CHECK(distance <= 1e-5);
      worst = std::max(worst, distance);
    }
    const std::vector<double>& last = goldens.logits.at({kSeq, kSeq - 1});
    CHECK(Distance(CachedLogits(training, "token", 1), last) <= 1e-5);
    CHECK(Distance(CachedLogits(training, "tokens", kShort), last) <= 1e-5);
    double loss_difference = 0;
    for (size_t i = 0; i < goldens.losses.size(); ++i) {
      const float loss = StepOnce(training, static_cast<int64_t>(i) + 1, 0.01f);
      INFO("step " << i);
      const double difference = std::abs(loss - goldens.losses[i]);
      CHECK(difference <= 1e-4);
      loss_difference = std::max(loss_difference, difference);
    }
    MESSAGE(name << ": logits to " << worst << ", losses to "
                 << loss_difference);
  }
}

TEST_CASE("losses of adapters beside frozen experts are those of PEFT") {
  int models = 0;
  for (const std::string& name : Files()) {
    const Goldens goldens = Read(name);
    if (goldens.adapted.empty()) continue;
    INFO(name);
    ++models;
    const FineTuning tuning =
        Open(kGoldens + name,
             LoraRules{.rank = 2,
                       .alpha = 3,
                       .targets = {"q_proj", "k_proj", "v_proj", "o_proj"}});
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training training = Start(tuning, *cpu);
    const Graph& graph = training.step().graph();
    for (const ValueId id : graph.Leaves(Role::kParam)) {
      const ValueInfo& info = graph.value(id);
      if (!info.name.ends_with(".lora_A.weight")) continue;
      std::vector<float> numbers;
      for (int64_t i = 0; i < info.type.shape.num_elements(); ++i) {
        numbers.push_back(static_cast<float>((5 * i + 3) % 11 - 5) / 50);
      }
      REQUIRE(training.step().Write(info.name, numbers).ok());
    }
    REQUIRE(goldens.adapted.size() == 4);
    for (size_t i = 0; i < goldens.adapted.size(); ++i) {
      INFO("step " << i);
      const float loss = StepOnce(training, static_cast<int64_t>(i) + 1, 0.02f);
      CHECK(std::abs(loss - goldens.adapted[i]) <= 1e-5);
    }
  }
  CHECK(models == 9);
}

// Losses of three steps of a batch of two texts, in so many micro-batches.
std::vector<float> LossesIn(const FineTuning& tuning, int64_t micro_batches) {
  const auto cpu = MakeCpuBackend({.threads = 2});
  MemoryOptimizations optimizations = NoOptimizations();
  optimizations.micro_batches = {micro_batches};
  auto training = Train({.model = tuning.ModelOf(ModelPurpose::kTrain, kShort),
                         .batch = 2,
                         .training = {.optimizer = AdamW{.decay = 0},
                                      .groups = tuning.groups(),
                                      .allow_batch_change = micro_batches > 1},
                         .optimizations = optimizations},
                        *cpu);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  training->Initialize(1);
  REQUIRE(tuning.LoadBase(training->step()).ok());
  std::vector<float> losses;
  for (int64_t i = 1; i <= 3; ++i) {
    losses.push_back(StepOnce(*training, i, 0.01f));
  }
  return losses;
}

TEST_CASE("experts are the same in micro-batches as in the whole batch") {
  for (const char* const name : {"mixtral.gguf", "qwen2moe", "qwen3moe"}) {
    for (const bool is_adapted : {false, true}) {
      INFO(name << (is_adapted ? " adapted" : " whole"));
      const FineTuning tuning =
          Open(kGoldens + name,
               is_adapted ? std::optional(LoraRules{.rank = 2, .targets = {}})
                          : std::nullopt);
      const std::vector<float> whole = LossesIn(tuning, 1);
      const std::vector<float> parts = LossesIn(tuning, 2);
      CHECK(whole[2] < whole[0]);
      for (size_t i = 0; i < whole.size(); ++i) {
        CHECK(std::abs(whole[i] - parts[i]) <= 1e-5);
      }
    }
  }
}

TEST_CASE("a family's adapted model is the same as GGUF and as safetensors") {
  for (const std::string& name : Files()) {
    INFO(name);
    const FineTuning tuning =
        Open(kGoldens + name, LoraRules{.rank = 2, .alpha = 3, .targets = {}});
    const auto cpu = MakeCpuBackend({.threads = 1});
    Training training = Start(tuning, *cpu);
    std::vector<float> losses;
    for (int64_t i = 1; i <= 3; ++i) {
      losses.push_back(StepOnce(training, i, 0.02f));
    }
    CHECK(losses.back() < losses.front());

    const std::string folder = testing::NewFolder("whole");
    fs::create_directories(folder);
    const std::string bare = name.substr(0, name.find('.'));
    fs::copy_file(StrCat(kGoldens, bare, "/config.json"),
                  folder + "/config.json");
    const auto safetensors = OutputFile::Claim(folder + "/model.safetensors");
    REQUIRE(safetensors.ok());
    REQUIRE(SaveMerged(tuning, training.step(), *safetensors).ok());
    const FineTuning whole = Open(folder, std::nullopt);

    std::vector<std::string> paths = {folder};
    for (const Family& family : kFamilies) {
      if (family.name != bare || !family.has_gguf) continue;
      const auto plan =
          GgufExport::Plan(tuning, ParseGgufMix("f32").value(), {});
      REQUIRE_MESSAGE(plan.ok(), plan.error().message);
      paths.push_back(folder + "/merged.gguf");
      const auto file = OutputFile::Claim(paths.back());
      REQUIRE(file.ok());
      REQUIRE(plan->Write(tuning, training.step(), *file).ok());
    }
    const std::vector<float> adapted = Logits(training, kSeq);
    const std::vector<double> expected(adapted.begin(), adapted.end());
    for (const std::string& path : paths) {
      INFO(path);
      const FineTuning merged = Open(path, std::nullopt);
      REQUIRE(merged.base().params().size() == whole.base().params().size());
      for (const PretrainedParam& param : whole.base().params()) {
        INFO(param.name);
        const auto same = std::ranges::find(merged.base().params(), param.name,
                                            &PretrainedParam::name);
        REQUIRE(same != merged.base().params().end());
        std::vector<float> numbers(
            static_cast<size_t>(param.shape.num_elements()));
        std::vector<float> others(numbers.size());
        REQUIRE(whole.base().ReadFloats(param, 0, numbers).ok());
        REQUIRE(merged.base().ReadFloats(*same, 0, others).ok());
        CHECK(Distance(others, std::vector<double>(numbers.begin(),
                                                   numbers.end())) <= 1e-6);
      }
      Training again = Start(merged, *cpu);
      CHECK(Distance(Logits(again, kSeq), expected) <= 1e-5);
    }
  }
}

TEST_CASE("config.json of before transformers 5 says the same of Gemma 3") {
  const std::string with_rope = testing::ChangedFolder(
      kGoldens + "gemma3", "\"rope_parameters\"", "\"sliding_window\"",
      R"("rope_theta": 5000, "rope_local_base_freq": 100,
         "rope_scaling": {"rope_type": "linear", "factor": 2},
         "sliding_window_pattern": 6, )");
  const std::string older = testing::ChangedFolder(with_rope, "\"layer_types\"",
                                                   "\"max_position", "");
  const FineTuning tuning = Open(older, std::nullopt);
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training ours = Start(tuning, *cpu);
  const FineTuning golden = Open(kGoldens + "gemma3", std::nullopt);
  Training theirs = Start(golden, *cpu);
  CHECK(Logits(ours, kSeq) == Logits(theirs, kSeq));
}

TEST_CASE("what transformers' model of a family does not follow is refused") {
  struct Row {
    std::string model;
    std::string_view from, to, text, message;
  };
  const Row rows[] = {
      {"gemma3", "\"attn_logit_softcapping\"", "\"bos",
       "\"attn_logit_softcapping\": 1.5, ",
       "has an \"attn_logit_softcapping\" of 1.5, which Gemma3ForCausalLM does "
       "not follow"},
      {"phi3", "\"sliding_window\"", "\"tie",
       "\"sliding_window\": 7, \"layer_types\": [\"full_attention\"], ",
       "has \"layer_types\", which Phi3ForCausalLM does not follow"},
      {"smollm3", "\"full_attention\"", "\"full_attention\"",
       "\"sliding_attention\", ",
       "has layers of type \"sliding_attention\", and no \"sliding_window\""},
  };
  for (const Row& row : rows) {
    INFO(row.model);
    const auto opened =
        FineTuning::Open(testing::ChangedFolder(kGoldens + row.model, row.from,
                                                row.to, row.text),
                         {});
    REQUIRE_FALSE(opened.ok());
    CHECK_MESSAGE(opened.error().message.ends_with(row.message),
                  opened.error().message);
  }
}

}  // namespace
}  // namespace stowage
