// Low-rank adapters beside tiny models, trained and kept as PEFT does it
// (tests/goldens/make_peft_goldens.py).

#include "train/fine_tuning.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/files.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "formats/weights_file.h"
#include "ir/graph.h"
#include "ir/weight_type.h"
#include "math/small_floats.h"
#include "nn/gpt.h"
#include "nn/lora.h"
#include "nn/model_options.h"
#include "tests/support/wrapped_backend.h"
#include "train/adapter_files.h"
#include "train/merged_model.h"
#include "train/training.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSeq = 12;
const std::string kModels = "tests/goldens/pretrained/";
const std::string kAdapters = "tests/goldens/peft/";

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Rows of training.csv: model, then what, then numbers.
using Golden = std::map<std::string, std::vector<double>>;
std::map<std::string, Golden> Goldens() {
  std::map<std::string, Golden> goldens;
  std::ifstream in(kAdapters + "training.csv");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string name, what, number;
    std::getline(fields, name, ',');
    std::getline(fields, what, ',');
    std::vector<double>& numbers = goldens[name][what];
    while (std::getline(fields, number, ',')) {
      numbers.push_back(std::stod(number));
    }
  }
  return goldens;
}

// The largest difference, over the largest number.
double Difference(const std::vector<float>& actual,
                  const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  double difference = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(std::isfinite(actual[i]));  // std::max passes NaN over
    difference = std::max(difference, std::abs(actual[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

FineTuning Open(const std::string& name, const FineTuningOptions& options) {
  auto tuning = FineTuning::Open(kModels + name, options);
  REQUIRE_MESSAGE(tuning.ok(), tuning.error().message);
  return *std::move(tuning);
}

FineTuning OpenWithAdapter(const std::string& name) {
  const auto rules = ReadAdapterRules(kAdapters + name);
  REQUIRE_MESSAGE(rules.ok(), rules.error().message);
  return Open(name, {.lora = *rules});
}

Training Start(const FineTuning& tuning, Backend& backend,
               std::optional<Bytes> budget = {}) {
  auto training = Train(
      {.model = tuning.ModelOf(ModelPurpose::kTrain, kSeq),
       .batch = 1,
       .training = {.optimizer = AdamW{.decay = 0}, .groups = tuning.groups()},
       .programs = {{.name = "generate",
                     .model = tuning.ModelOf(ModelPurpose::kGenerate, kSeq)}},
       .budget = budget},
      backend);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  training->Initialize(1);
  const Status loaded = tuning.LoadBase(training->step());
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  return *std::move(training);
}

std::vector<int32_t> Tokens(int32_t first) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kSeq; ++i)
    tokens.push_back((7 * (i + first) + 3) % 64);
  return tokens;
}

// Of the last token.
std::vector<float> Logits(Training& training) {
  Runner& generate = *training.Find("generate");
  REQUIRE(generate.Write("tokens", Tokens(0)).ok());
  REQUIRE(generate.Step() == StepCode::kOk);
  std::vector<float> logits(static_cast<size_t>(kSeq * 64));
  REQUIRE(generate.Read("logits", &logits).ok());
  return {logits.end() - 64, logits.end()};
}

void WriteInputs(Runner& step, int64_t number) {
  REQUIRE(step.Write("tokens", Tokens(0)).ok());
  REQUIRE(step.Write("targets", Tokens(1)).ok());
  REQUIRE(step.Write("lr", 0.01f).ok());
  REQUIRE(step.Write("step", number).ok());
}

std::vector<float> TakeSteps(Training& training, int64_t count) {
  Runner& step = training.step();
  std::vector<float> losses;
  for (int64_t i = 1; i <= count; ++i) {
    WriteInputs(step, i);
    REQUIRE(step.Step() == StepCode::kOk);
    losses.push_back(*step.ReadScalar("loss"));
  }
  return losses;
}

std::vector<float> ReadParam(const Runner& runner, const std::string& name) {
  const auto id = runner.graph().Find(name);
  REQUIRE_MESSAGE(id.has_value(), name);
  std::vector<float> numbers(
      static_cast<size_t>(runner.graph().value(*id).type.shape.num_elements()));
  REQUIRE(runner.Read(name, &numbers).ok());
  return numbers;
}

fs::path TempFolder(const std::string& name) {
  const char* const temp = std::getenv("TEST_TMPDIR");
  const fs::path folder = fs::path(temp ? temp : "/tmp") / name;
  fs::remove_all(folder);
  return folder;
}

TEST_CASE(
    "five steps with PEFT's adapters give its losses, logits and weights") {
  const auto goldens = Goldens();
  REQUIRE(goldens.size() == 3);
  for (const auto& golden : goldens) {
    const std::string& name = golden.first;
    INFO(name);
    const FineTuning tuning = OpenWithAdapter(name);
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training training = Start(tuning, *cpu);
    const Status loaded =
        LoadAdapter(tuning, kAdapters + name, training.step());
    REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
    CHECK(Difference(Logits(training), golden.second.at("logits before")) <
          1e-5);
    CHECK(Difference(TakeSteps(training, 5), golden.second.at("losses")) <
          1e-5);
    CHECK(Difference(Logits(training), golden.second.at("logits after")) <
          1e-4);
    int64_t adapters = 0, elements = 0;
    for (const auto& row : golden.second) {
      if (!IsLoraParam(row.first)) continue;
      INFO(row.first);
      CHECK(Difference(ReadParam(training.step(), row.first), row.second) <
            1e-3);
      ++adapters;
      elements += std::ssize(row.second);
    }
    CHECK(adapters > 0);
    CHECK(tuning.trainable_params() == elements);
  }
}

TEST_CASE("a frozen base lies as its file has it, and has no states") {
  const FineTuning tuning = OpenWithAdapter("llama.gguf");
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Start(tuning, *cpu);
  const Graph& graph = training.step().graph();
  Bytes base = 0;
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const ValueInfo& info = graph.value(id);
    if (!IsLoraParam(info.name)) base += info.type.bytes();
  }
  Bytes in_file = 0;
  for (const PretrainedParam& param : tuning.base().params()) {
    in_file += tuning.base().tensor(param).bytes;
  }
  CHECK(base == in_file);
  CHECK(tuning.frozen_bytes() == in_file);
  for (const ValueId id : graph.Leaves(Role::kState)) {
    CHECK(Contains(graph.value(id).name, "lora_"));
  }
}

TEST_CASE("a smaller budget gives the same losses to the bit") {
  const FineTuning tuning = OpenWithAdapter("llama.gguf");
  const auto cpu = MakeCpuBackend({.threads = 2});
  Training roomy = Start(tuning, *cpu);
  const std::vector<float> losses = TakeSteps(roomy, 3);
  const Bytes arena = roomy.plan().step.plan.arena_bytes();
  const Bytes weights = roomy.plan().step.plan.regions.weights +
                        roomy.plan().step.plan.regions.state;
  auto planner = TrainingPlanner::Make(
      {.model = tuning.ModelOf(ModelPurpose::kTrain, kSeq),
       .batch = 1,
       .training = {.optimizer = AdamW{.decay = 0}, .groups = tuning.groups()}},
      cpu->Needs());
  REQUIRE(planner.ok());
  const auto smallest = planner->step().SmallestBudget();
  REQUIRE(smallest.ok());
  CHECK(*smallest > weights / 2);
  REQUIRE(*smallest < arena);
  Training tight = Start(tuning, *cpu, *smallest);
  CHECK(TakeSteps(tight, 3) == losses);
}

// The first `seq` tokens of the usual inputs.
float StepOf(Runner& step, int64_t seq, int64_t number) {
  const auto first = [&](int32_t from) {
    std::vector<int32_t> tokens = Tokens(from);
    tokens.resize(static_cast<size_t>(seq));
    return tokens;
  };
  REQUIRE(step.Write("tokens", first(0)).ok());
  REQUIRE(step.Write("targets", first(1)).ok());
  REQUIRE(step.Write("lr", 0.01f).ok());
  REQUIRE(step.Write("step", number).ok());
  REQUIRE(step.Step() == StepCode::kOk);
  return *step.ReadScalar("loss");
}

TEST_CASE(
    "steps of several lengths share an arena, and have the bits of their own") {
  const FineTuning tuning = OpenWithAdapter("llama.gguf");
  const auto cpu = MakeCpuBackend({.threads = 2});
  const auto open = [&](const std::vector<int64_t>& lengths) {
    TrainingSpec spec = {
        .model = tuning.ModelOf(ModelPurpose::kTrain, lengths.front()),
        .batch = 1,
        .training = {.optimizer = AdamW{.decay = 0},
                     .groups = tuning.groups()}};
    for (size_t i = 1; i < lengths.size(); ++i) {
      spec.shapes.push_back(
          {.name = StrCat("of ", lengths[i]),
           .model = tuning.ModelOf(ModelPurpose::kTrain, lengths[i])});
    }
    auto training = Train(std::move(spec), *cpu);
    REQUIRE_MESSAGE(training.ok(), training.error().message);
    training->Initialize(1);
    REQUIRE(tuning.LoadBase(training->step()).ok());
    REQUIRE(
        LoadAdapter(tuning, kAdapters + "llama.gguf", training->step()).ok());
    return *std::move(training);
  };
  Training several = open({12, 8, 3});
  // Of the three, the longest takes the most; the others nothing beyond it.
  CHECK(several.session().arena_bytes() ==
        several.plan().step.plan.arena_bytes());
  REQUIRE(several.plan().shapes.size() == 2);
  CHECK(several.plan().shapes[1].step.plan.arena_bytes() <
        several.plan().step.plan.arena_bytes());
  // What one length has learnt, the next one knows.
  std::vector<float> losses;
  for (int64_t i = 1; i <= 4; ++i) {
    losses.push_back(StepOf(*several.Find("of 8"), 8, i));
  }
  losses.push_back(StepOf(*several.Find("of 3"), 3, 5));
  losses.push_back(StepOf(several.step(), 12, 6));
  Training alone = open({8});
  for (int64_t i = 1; i <= 4; ++i) {
    CHECK(StepOf(alone.step(), 8, i) == losses[static_cast<size_t>(i - 1)]);
  }
  CHECK(losses[3] < losses[0]);
  // The third learns on from where the second left off.
  Training fresh = open({3});
  CHECK(StepOf(fresh.step(), 3, 5) != losses[4]);
}

TEST_CASE("a saved adapter is PEFT's files, and goes on where it was") {
  const FineTuning tuning = OpenWithAdapter("gpt2");
  const auto cpu = MakeCpuBackend({.threads = 2});
  Training training = Start(tuning, *cpu);
  TakeSteps(training, 2);
  const std::vector<float> logits = Logits(training);
  const fs::path folder = TempFolder("adapter");
  const auto files = AdapterFiles::Claim(folder.string());
  REQUIRE_MESSAGE(files.ok(), files.error().message);
  const Status saved = SaveAdapter(tuning, training.step(), *files);
  REQUIRE_MESSAGE(saved.ok(), saved.error().message);

  const auto rules = ReadAdapterRules(folder.string());
  REQUIRE_MESSAGE(rules.ok(), rules.error().message);
  CHECK(rules->rank == 4);
  CHECK(rules->alpha == 6);
  CHECK(rules->targets == std::vector<std::string>{"c_attn", "c_fc", "c_proj"});
  const FineTuning again = Open("gpt2", {.lora = *rules});
  Training other = Start(again, *cpu);
  const Status loaded = LoadAdapter(again, folder.string(), other.step());
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  CHECK(Logits(other) == logits);

  // As a save leaves it that ended between its two files.
  LoraRules older = *rules;
  older.alpha = 8;
  const FineTuning by_older = Open("gpt2", {.lora = older});
  Training mixed = Start(by_older, *cpu);
  const Status refused = LoadAdapter(by_older, folder.string(), mixed.step());
  REQUIRE_FALSE(refused.ok());
  CHECK(Contains(refused.error().message,
                 "holds weights of lora_alpha 6, and the adapter counts by 8"));

  // What PEFT reads: its names, as its own files have them.
  const auto ours =
      WeightsFile::Open((folder / "adapter_model.safetensors").string());
  const auto theirs =
      WeightsFile::Open(kAdapters + "gpt2/adapter_model.safetensors");
  REQUIRE(ours.ok());
  REQUIRE(theirs.ok());
  REQUIRE(ours->tensors().size() == theirs->tensors().size());
  for (size_t i = 0; i < ours->tensors().size(); ++i) {
    CHECK(ours->tensors()[i].name == theirs->tensors()[i].name);
    CHECK(ours->tensors()[i].shape == theirs->tensors()[i].shape);
  }
}

// A copy of PEFT's folder whose config has other words for its layers.
fs::path Renamed(const std::string& name, std::string_view other) {
  const fs::path folder = TempFolder("renamed");
  fs::create_directories(folder);
  fs::copy_file(StrCat(kAdapters, name, "/adapter_model.safetensors"),
                folder / "adapter_model.safetensors");
  std::ofstream(folder / "adapter_config.json")
      << R"({"peft_type": "LORA", "r": 4, "lora_alpha": 6, )" << other << "}";
  return folder;
}

TEST_CASE("an adapter by rsLoRA counts alpha over the root of its rank") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  LoraRules rules{.rank = 4, .alpha = 3, .rank_stabilized = true};
  const FineTuning stabilized = Open("llama.gguf", {.lora = rules});
  const FineTuning plain =
      Open("llama.gguf", {.lora = LoraRules{.rank = 4, .alpha = 6}});
  Training one = Start(stabilized, *cpu);
  Training other = Start(plain, *cpu);
  CHECK(TakeSteps(one, 3) == TakeSteps(other, 3));
  const fs::path folder = TempFolder("rslora");
  const auto files = AdapterFiles::Claim(folder.string());
  REQUIRE_MESSAGE(files.ok(), files.error().message);
  const Status saved = SaveAdapter(stabilized, one.step(), *files);
  REQUIRE_MESSAGE(saved.ok(), saved.error().message);
  const auto read = ReadAdapterRules(folder.string());
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  CHECK(read->rank_stabilized);
  CHECK(read->alpha == 3);
  // Beside a configuration that says otherwise the weights mean something else.
  rules.rank_stabilized = false;
  const FineTuning mistaken = Open("llama.gguf", {.lora = rules});
  Training third = Start(mistaken, *cpu);
  const Status loaded = LoadAdapter(mistaken, folder.string(), third.step());
  REQUIRE_FALSE(loaded.ok());
  CHECK(Contains(loaded.error().message, "holds weights of use_rslora true"));
}

TEST_CASE("by LoRA+ the second matrix of an adapter learns faster") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const auto after_a_step = [&](double plus) {
    const FineTuning tuning =
        Open("llama.gguf", {.lora = LoraRules{.rank = 4}, .lora_plus = plus});
    Training training = Start(tuning, *cpu);
    TakeSteps(training, 1);
    std::vector<float> up(4 * 32);
    REQUIRE(training.step()
                .Read("model.layers.0.self_attn.q_proj.lora_B.weight", &up)
                .ok());
    return up;
  };
  const std::vector<float> slow = after_a_step(1), fast = after_a_step(16);
  for (size_t i = 0; i < slow.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(slow[i]) > 0.009f);
    CHECK(fast[i] == doctest::Approx(16 * slow[i]).epsilon(1e-6));
  }
}

TEST_CASE("layers that PEFT chose in other ways are those of the weights") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  for (const char* name : {"qwen2.gguf", "gpt2"}) {
    INFO(name);
    const bool gpt2 = std::string_view(name) == "gpt2";
    const auto logits = [&](const fs::path& folder) {
      const auto rules = ReadAdapterRules(folder.string());
      REQUIRE_MESSAGE(rules.ok(), rules.error().message);
      const FineTuning tuning = Open(name, {.lora = *rules});
      Training training = Start(tuning, *cpu);
      const Status loaded =
          LoadAdapter(tuning, folder.string(), training.step());
      REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
      return Logits(training);
    };
    const std::vector<float> expected = logits(kAdapters + name);
    for (const std::string_view other :
         {R"x("target_modules": ".*(q|v)_proj|.*c_(attn|proj|fc)")x",
          R"x("target_modules": "all-linear")x",
          R"x("target_modules": ["proj"], "exclude_modules": ["k_proj"])x",
          R"x("target_modules": ["k_proj"], "layers_to_transform": [0, 1])x"}) {
      INFO(other);
      CHECK(logits(Renamed(name, other)) == expected);
    }
    // A part of a word is no layer's name, as in PEFT.
    const auto part = ReadAdapterRules(
        Renamed(name, R"("target_modules": ["proj"])").string());
    REQUIRE(part.ok());
    const auto none = FineTuning::Open(kModels + name, {.lora = *part});
    REQUIRE_FALSE(none.ok());
    CHECK(Contains(none.error().message, "is called \"proj\""));
    const std::string whole = gpt2 ? "transformer.h.0.attn.c_proj"
                                   : "model.layers.0.self_attn.q_proj";
    const auto one = ReadAdapterRules(
        Renamed(name, StrCat(R"("target_modules": [")", whole, "\"]"))
            .string());
    REQUIRE(one.ok());
    CHECK(Open(name, {.lora = *one}).trainable_params() == 2 * 4 * 32);
  }
}

TEST_CASE("an adapter beside some layers names them in whole") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const auto saved = [&](const std::string& name,
                         const std::vector<std::string>& targets) {
    const FineTuning tuning =
        Open(name, {.lora = LoraRules{.rank = 2, .targets = targets}});
    Training training = Start(tuning, *cpu);
    const fs::path folder = TempFolder("some");
    const auto files = AdapterFiles::Claim(folder.string());
    REQUIRE(files.ok());
    REQUIRE(SaveAdapter(tuning, training.step(), *files).ok());
    const auto rules = ReadAdapterRules(folder.string());
    REQUIRE(rules.ok());
    const FineTuning again = Open(name, {.lora = *rules});
    CHECK(again.trainable_params() == tuning.trainable_params());
    std::ifstream in(folder / "adapter_config.json");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  // As the config has lists.
  const auto list = [](const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
      text += StrCat(text.empty() ? "" : ",", "\n    \"", name, "\"");
    }
    return StrCat("\"target_modules\": [", text, "\n  ]");
  };
  CHECK(Contains(saved("qwen2.gguf", {"q_proj", "*.down_proj.weight"}),
                 list({"down_proj", "q_proj"})));
  CHECK(
      Contains(saved("qwen2.gguf", {"layers.1.*.v_proj", "layers.1.*.q_proj"}),
               list({"model.layers.1.self_attn.q_proj",
                     "model.layers.1.self_attn.v_proj"})));
  CHECK(Contains(
      saved("gpt2", {"attn.c_proj"}),
      list({"transformer.h.0.attn.c_proj", "transformer.h.1.attn.c_proj"})));
  CHECK(Contains(saved("gpt2", {"c_proj"}), list({"c_proj"})));
}

TEST_CASE("files that end while they are read leave no mixture of weights") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  testing::WatchedBackend backend(*cpu);
  const std::string name = "qwen2.gguf";
  const fs::path folder = TempFolder("cut");
  fs::create_directories(folder);
  const fs::path base = folder / name;
  const fs::path adapter = folder / "adapter_model.safetensors";
  const fs::path whole_base = kModels + name;
  const fs::path whole_adapter =
      kAdapters + name + "/adapter_model.safetensors";
  fs::copy_file(whole_base, base);
  fs::copy_file(whole_adapter, adapter);

  const auto rules = ReadAdapterRules(kAdapters + name);
  REQUIRE(rules.ok());
  const auto tuning = FineTuning::Open(base.string(), {.lora = *rules});
  REQUIRE(tuning.ok());
  Training training = Start(*tuning, backend);
  Runner& step = training.step();
  const auto check = [&](const fs::path& file, const fs::path& whole,
                         const auto& load) {
    INFO(file.string());
    REQUIRE(load().ok());
    backend.on_copy = [&] {
      fs::resize_file(file, fs::file_size(whole) - 1'000);
    };
    const Status cut = load();
    backend.on_copy = nullptr;
    REQUIRE_FALSE(cut.ok());
    CHECK(cut.error().code == ErrorCode::kIo);
    CHECK(Contains(cut.error().message,
                   "params and states that they are of have none now"));
    WriteInputs(step, 1);
    const StepCode code = step.Step();
    REQUIRE(code == StepCode::kInputsMissing);
    CHECK(Contains(step.Explain(code).message, "has no values yet"));
    // The same file, whole again.
    fs::copy_file(whole, file, fs::copy_options::overwrite_existing);
    CHECK(load().ok());
  };
  check(base, whole_base, [&] { return tuning->LoadBase(step); });
  check(adapter, whole_adapter,
        [&] { return LoadAdapter(*tuning, folder.string(), step); });

  const FineTuning other = OpenWithAdapter(name);
  Training expected = Start(other, *cpu);
  REQUIRE(LoadAdapter(other, kAdapters + name, expected.step()).ok());
  CHECK(TakeSteps(training, 2) == TakeSteps(expected, 2));
}

TEST_CASE("weights and adapters that are not finite are refused by name") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const fs::path folder = TempFolder("not finite");
  fs::create_directories(folder);
  const fs::path base = folder / "qwen2.gguf";
  const fs::path adapter = folder / "adapter_model.safetensors";
  fs::copy_file(kModels + "qwen2.gguf", base);
  fs::copy_file(kAdapters + "qwen2.gguf/adapter_model.safetensors", adapter);
  const auto rules = ReadAdapterRules(kAdapters + "qwen2.gguf");
  REQUIRE(rules.ok());
  const auto tuning = FineTuning::Open(base.string(), {.lora = *rules});
  REQUIRE(tuning.ok());
  Training training = Start(*tuning, *cpu);
  const auto put = [](const fs::path& file, int64_t at,
                      std::string_view bytes) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(at);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  // The last bytes of the file are the adapter's last number.
  put(adapter, static_cast<int64_t>(fs::file_size(adapter)) - 4,
      std::string_view("\0\0\xC0\x7F", 4));
  const Status loaded = LoadAdapter(*tuning, folder.string(), training.step());
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().code == ErrorCode::kInvalidArgument);
  CHECK(Contains(loaded.error().message, "has nan at element "));
  CHECK(Contains(loaded.error().message, "lora_"));
  // A number of each tensor: the first, or a scale of its first block.
  for (const PretrainedParam& param : tuning->base().params()) {
    const WeightTensor& tensor = tuning->base().tensor(param);
    CAPTURE(tensor.name);
    fs::copy_file(kModels + "qwen2.gguf", base,
                  fs::copy_options::overwrite_existing);
    const bool is_f32 = tensor.type == WeightType::kF32;
    const std::string_view bad = is_f32 ? std::string_view("\0\0\x80\xFF", 4)
                                        : std::string_view("\0\xFC", 2);
    const Bytes of_scale = tensor.type == WeightType::kQ6_K ? 208 : 0;
    put(base, tensor.begin + of_scale, bad);
    const Status status = tuning->LoadBase(training.step());
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kInvalidArgument);
    CHECK(Contains(status.error().message, StrCat("\"", tensor.name, "\"")));
    CHECK(Contains(status.error().message, "-inf"));
  }
}

TEST_CASE("losses of a base in blocks of every read type are transformers'") {
  const FineTuning tuning = Open(
      "blocks.gguf", {.lora = LoraRules{.rank = 2, .targets = {"q_proj"}}});
  std::set<WeightType> types;
  for (const WeightTensor& tensor : tuning.base().file().tensors()) {
    types.insert(tensor.type);
  }
  CHECK(types.size() == 8);                // seven, and F32 of norms
  CHECK(tuning.frozen_bytes() <= 37'056);  // of the file: no matrix in floats
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Start(tuning, *cpu);
  // The cross entropy of save_blocks() of make_pretrained_goldens.py, in double.
  CHECK(std::abs(TakeSteps(training, 1)[0] / 6.910034625757852 - 1) < 1e-5);
}

// A copy of a model, one matrix of which is of MXFP4 blocks with one exponent, all of
// whose numbers are its largest: its path.
std::string WithMxfp4(const std::string& matrix, uint8_t exponent) {
  const auto base = WeightsFile::Open(kModels + "qwen2.gguf");
  REQUIRE(base.ok());
  std::vector<GgufTensorToWrite> tensors;
  for (const WeightTensor& tensor : base->tensors()) {
    tensors.push_back({tensor.name, tensor.type, tensor.shape});
    if (tensor.name == matrix) tensors.back().type = WeightType::kMXFP4;
  }
  const fs::path path = TempFolder("mxfp4") / "base.gguf";
  fs::create_directories(path.parent_path());
  const auto file = OutputFile::Claim(path.string());
  REQUIRE(file.ok());
  const Status written = WriteGguf(
      *file, GgufMetadata::Of(*base->gguf()), tensors,
      [&](size_t at, const OutputFile::WritePart& write) {
        std::vector<std::byte> bytes(static_cast<size_t>(tensors[at].bytes()),
                                     std::byte{0x77});
        if (tensors[at].name == matrix) {
          for (size_t i = 0; i < bytes.size(); i += 17) {
            bytes[i] = std::byte{exponent};
          }
        } else {
          const WeightTensor& tensor = base->tensors()[at];
          REQUIRE(base->ReadBytes(tensor, 0, bytes).ok());
        }
        return write(bytes);
      });
  REQUIRE_MESSAGE(written.ok(), written.error().message);
  return path.string();
}

TEST_CASE("exponents of MXFP4 that make numbers infinite are refused") {
  // 6 * 2^(252 - 127) is below 2^128, and 6 * 2^126 is not.
  const std::string path = WithMxfp4("blk.0.attn_v.weight", 252);
  const auto tuning = FineTuning::Open(
      path, {.lora = LoraRules{.rank = 2, .targets = {"q_proj"}}});
  REQUIRE_MESSAGE(tuning.ok(), tuning.error().message);
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Start(*tuning, *cpu);  // loads the base
  const WeightTensor* const tensor =
      tuning->base().file().Find("blk.0.attn_v.weight");
  std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(tensor->begin + 17);
  stream.put('\xFD');
  stream.close();
  const Status loaded = tuning->LoadBase(training.step());
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().code == ErrorCode::kInvalidArgument);
  CHECK(Contains(loaded.error().message,
                 "has inf in MXFP4 block 1 of \"blk.0.attn_v.weight\""));
}

TEST_CASE("all weights may be trained, in bf16 too") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const FineTuning tuning =
        Open("qwen2.gguf", {.lora = std::nullopt, .dtype = dtype});
    CHECK(tuning.groups().empty());
    CHECK(tuning.frozen_bytes() == 0);
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training training = Start(tuning, *cpu);
    const std::vector<float> losses = TakeSteps(training, 3);
    CHECK(losses[2] < losses[0]);
    CHECK(tuning.trainable_params() == ParameterCount(training.step().graph()));
  }
}

TEST_CASE(
    "merged weights are a model of their own, with the adapter's logits") {
  for (const char* name : {"llama", "gpt2"}) {
    INFO(name);
    // PEFT's own rules, beside the floats of the folder.
    const bool llama = std::string_view(name) == "llama";
    const auto rules =
        ReadAdapterRules(StrCat(kAdapters, llama ? "llama.gguf" : name));
    REQUIRE(rules.ok());
    const FineTuning tuning = Open(name, {.lora = *rules});
    const auto cpu = MakeCpuBackend({.threads = 2});
    Training training = Start(tuning, *cpu);
    TakeSteps(training, 3);
    const std::vector<float> logits = Logits(training);
    const fs::path folder = TempFolder("merged");
    fs::create_directories(folder);
    fs::copy_file(StrCat(kModels, name, "/config.json"),
                  folder / "config.json");
    const auto file =
        OutputFile::Claim((folder / "model.safetensors").string());
    REQUIRE(file.ok());
    const Status saved = SaveMerged(tuning, training.step(), *file);
    REQUIRE_MESSAGE(saved.ok(), saved.error().message);
    const auto merged = FineTuning::Open(folder.string(), {.lora = {}});
    REQUIRE_MESSAGE(merged.ok(), merged.error().message);
    Training whole = Start(*merged, *cpu);
    CHECK(Difference(Logits(whole), {logits.begin(), logits.end()}) < 1e-5);
    Training base = Start(Open(name, {.lora = {}}), *cpu);
    CHECK(Difference(Logits(base), {logits.begin(), logits.end()}) > 1e-2);
  }
}

// A folder with GPT-2 of 5,000 tokens, whose embedding in f16 is more than is read at a
// time; numbers by their place.
fs::path WideModel() {
  const fs::path folder = TempFolder("wide");
  fs::create_directories(folder);
  std::ofstream(folder / "config.json")
      << R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",)"
      << R"( "vocab_size": 5000, "n_embd": 32, "n_layer": 1, "n_head": 4,)"
      << R"( "n_positions": 16, "activation_function": "gelu_new",)"
      << R"( "layer_norm_epsilon": 1e-5})";
  const auto graph = BuildGpt({.name = "wide",
                               .layers = 1,
                               .heads = 4,
                               .width = 32,
                               .vocabulary = 5000,
                               .max_seq = 16},
                              ModelPurpose::kGenerate, {.batch = 1, .seq = 1});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  SafetensorsHeader header;
  std::vector<uint16_t> data;
  for (const ValueId id : graph->Leaves(Role::kParam)) {
    const ValueInfo& info = graph->value(id);
    const bool embedding = info.name == "wte" || info.name == "wpe";
    const auto begin = static_cast<Bytes>(2 * data.size());
    for (int64_t i = 0; i < info.type.shape.num_elements(); ++i) {
      data.push_back(static_cast<uint16_t>(i % 0x3800));  // an f16 below 1/2
    }
    header.tensors.push_back(
        {.name = StrCat(info.name, embedding ? ".weight" : ""),
         .type = {DType::kF16, info.type.shape},
         .begin = begin,
         .end = static_cast<Bytes>(2 * data.size())});
  }
  const std::string text = FormatSafetensorsHeader(header);
  const uint64_t length = text.size();
  std::ofstream out(folder / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << text;
  out.write(reinterpret_cast<const char*>(data.data()),
            static_cast<std::streamsize>(2 * data.size()));
  return folder;
}

TEST_CASE("a matrix larger than what is read at a time is loaded whole") {
  const fs::path folder = WideModel();
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (const bool frozen : {true, false}) {
    INFO(frozen);
    FineTuningOptions options;
    if (!frozen) options.lora.reset();
    const auto tuning = FineTuning::Open(folder.string(), options);
    REQUIRE_MESSAGE(tuning.ok(), tuning.error().message);
    Training training = Start(*tuning, *cpu);
    const Runner& step = training.step();
    const TensorType& type = step.graph().value(*step.graph().Find("wte")).type;
    CHECK(type.dtype == (frozen ? DType::kU8 : DType::kF32));
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    REQUIRE(step.ReadBytes("wte", type.dtype, bytes).ok());
    int64_t wrong = 0;
    for (int64_t i = 0; i < 5000 * 32; ++i) {
      const auto bits = static_cast<uint16_t>(i % 0x3800);
      const auto at = static_cast<size_t>(i);
      if (frozen) {
        uint16_t got = 0;
        std::memcpy(&got, bytes.data() + 2 * at, 2);
        wrong += got != bits;
      } else {
        float got = 0;
        std::memcpy(&got, bytes.data() + 4 * at, 4);
        wrong += got != math::HalfToFloat(bits);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("an adapter drops what goes into it in training alone") {
  const FineTuning tuning =
      Open("llama.gguf",
           {.lora = LoraRules{.rank = 2, .dropout = 0.5, .targets = {}}});
  CHECK(tuning.ModelOf(ModelPurpose::kTrain, 4)(1)->Find("seed"));
  CHECK_FALSE(tuning.ModelOf(ModelPurpose::kEvaluate, 4)(1)->Find("seed"));
  CHECK_FALSE(tuning.ModelOf(ModelPurpose::kGenerate, 4)(1)->Find("seed"));
}

TEST_CASE("what is no adapter for this model is told") {
  const auto error = [](const fs::path& folder) {
    const auto rules = ReadAdapterRules(folder.string());
    REQUIRE_FALSE(rules.ok());
    return rules.error();
  };
  const fs::path folder = TempFolder("wrong");
  fs::create_directories(folder);
  CHECK(error(folder).code == ErrorCode::kNotFound);
  const auto config = [&](std::string_view text) {
    std::ofstream(folder / "adapter_config.json") << text;
    return error(folder).message;
  };
  CHECK(Contains(config("{"), "adapter_config.json"));
  CHECK(Contains(config(R"({"peft_type": "IA3"})"),
                 "is of type IA3; only LORA is read"));
  // What is not plainly false might be meant.
  for (const char* const flag :
       {R"("use_qalora": 1)", R"("use_qalora": "true")",
        R"("use_qalora": true)", R"("lora_bias": true)",
        R"("layer_replication": [[0, 2]])", R"("rank_pattern": {"q_proj": 2})",
        R"("alpha_pattern": {"a": 2})", R"("target_parameters": ["experts.w"])",
        R"("trainable_token_indices": [3])", R"("kasa_config": {"a": 1})",
        R"("arrow_config": {"top_k": 2})", R"("use_bdlora": {"nblocks": 2})",
        R"("monteclora_config": {"n": 1})", R"("velora_config": {"n": 1})"}) {
    INFO(flag);
    CHECK(Contains(config(StrCat(R"({"peft_type": "LORA", )", flag, "}")),
                   ", which is not supported"));
  }
  CHECK(Contains(config(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8,
                            "lora_dropout": "0.5"})"),
                 "lora_dropout"));
  for (const char* const flag : {"use_rslora", "use_dora"}) {
    CHECK(Contains(
        config(StrCat(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, ")",
                      flag, R"(": 1})")),
        flag));
  }
  CHECK(Contains(config(R"({"peft_type": "LORA", "bias": "all"})"),
                 "trains biases (all), which is not supported"));
  CHECK(Contains(config(R"({"peft_type": "LORA", "bias": 3})"), "bias"));
  CHECK(Contains(
      config(R"({"peft_type": "LORA", "modules_to_save": ["lm_head"]})"),
      "has modules_to_save, which is not supported"));
  CHECK(Contains(
      config(R"({"peft_type": "LORA", "alora_invocation_tokens": [3]})"),
      "has alora_invocation_tokens, which is not supported"));
  for (const char* start : {"pissa", "pissa_niter_4", "olora", "corda", "loftq",
                            "lora_ga", "unheard"}) {
    CHECK(Contains(
        config(StrCat(R"({"peft_type": "LORA", "init_lora_weights": ")", start,
                      "\"}")),
        StrCat("began by ", start,
               ", which takes what an adapter "
               "begins with out of the base")));
  }
  // Starts that leave the base alone are passed over, and what is missing is told.
  for (const char* start : {"true", "false", "\"gaussian\"", "\"orthogonal\"",
                            "\"eva\"", "\"mica\"", "null"}) {
    CHECK(
        Contains(config(StrCat(R"({"peft_type": "LORA", "init_lora_weights": )",
                               start, R"(, "alora_invocation_tokens": null})")),
                 "\"r\""));
  }
  for (const char* none :
       {"", R"(, "target_modules": [])", R"(, "target_modules": null)"}) {
    CHECK(Contains(
        config(StrCat(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8)", none,
                      "}")),
        "names no layers in \"target_modules\""));
  }
  // Which layers these are, the weights would say.
  CHECK(Contains(
      config(
          R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": "all-linear"})"),
      "adapter_model.safetensors\" cannot be opened"));

  // An adapter of another model.
  const FineTuning tuning = OpenWithAdapter("qwen2.gguf");
  const auto cpu = MakeCpuBackend({.threads = 1});
  Training training = Start(tuning, *cpu);
  const std::vector<float> before = Logits(training);
  const Status loaded =
      LoadAdapter(tuning, kAdapters + "gpt2", training.step());
  REQUIRE_FALSE(loaded.ok());
  CHECK(Contains(loaded.error().message,
                 "lacks \"base_model.model.model.layers.0.self_attn.q_proj."
                 "lora_A.weight\""));
  const Status more =
      LoadAdapter(tuning, kAdapters + "llama.gguf", training.step());
  REQUIRE_FALSE(more.ok());
  CHECK(Contains(more.error().message, "which no param of the adapter takes"));
  CHECK(Logits(training) == before);

  const auto integers =
      FineTuning::Open(kModels + "gpt2", {.dtype = DType::kI32});
  REQUIRE_FALSE(integers.ok());
  CHECK(Contains(integers.error().message, "dtype is i32"));
}

}  // namespace
}  // namespace stowage
