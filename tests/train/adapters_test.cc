// PiSSA and DoRA beside the tiny models of tests/goldens/pretrained: trained, merged and saved
// as PEFT does it (tests/goldens/make_adapter_goldens.py).

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/gguf.h"
#include "formats/weights_file.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "nn/lora.h"
#include "nn/model_options.h"
#include "planner/plan.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "runtime/values.h"
#include "train/adapter_files.h"
#include "train/fine_tuning.h"
#include "train/gguf_export.h"
#include "train/lora_weights.h"
#include "train/merged_model.h"
#include "train/training.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

const std::string kTinyModels = "tests/goldens/pretrained/";
const std::string kAdapterGoldens = "tests/goldens/adapters/";

// training.csv: run -> what -> numbers.
using AdapterGoldens =
    std::map<std::string, std::map<std::string, std::vector<double>>>;
constexpr int64_t kSeq = 12;
constexpr int64_t kVocabulary = 64;

std::vector<int32_t> Tokens(int32_t first) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kSeq; ++i) {
    tokens.push_back((7 * (i + first) + 3) % kVocabulary);
  }
  return tokens;
}

void Must(const Status& status) {
  REQUIRE_MESSAGE(status.ok(), status.error().message);
}

template <typename T>
T Must(Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.error().message);
  return *std::move(result);
}

AdapterGoldens ReadAdapterGoldens() {
  AdapterGoldens goldens;
  std::ifstream in(kAdapterGoldens + "training.csv");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string run, what, number;
    std::getline(fields, run, ',');
    std::getline(fields, what, ',');
    std::vector<double>& numbers = goldens[run][what];
    while (std::getline(fields, number, ',')) {
      numbers.push_back(std::stod(number));
    }
  }
  return goldens;
}

// The largest difference, over the largest expected number.
double RelativeDifference(const std::vector<float>& actual,
                          const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  double difference = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(std::isfinite(actual[i]));  // std::max passes NaN over
    difference =
        std::max(difference, std::abs(double{actual[i]} - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

// An empty folder of this test.
fs::path EmptyFolder(const std::string& name) {
  const char* const temp = std::getenv("TEST_TMPDIR");
  const fs::path folder = fs::path(temp ? temp : "/tmp") / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

// A training of a tuning with its base loaded, by AdamW without decay at a rate of 0.01.
class TinyTuning {
 public:
  explicit TinyTuning(Result<FineTuning> tuning);

  const FineTuning& tuning() const { return tuning_; }
  Training& training() { return *training_; }
  Runner& step() { return training_->step(); }

  // Its losses.
  std::vector<float> TakeSteps(int64_t count);
  // Of the last of 12 tokens.
  std::vector<float> Logits();
  std::vector<float> Param(const std::string& name);

 private:
  FineTuning tuning_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Training> training_;
  int64_t done_ = 0;
};

TinyTuning::TinyTuning(Result<FineTuning> tuning)
    : tuning_(Must(std::move(tuning))),
      backend_(MakeCpuBackend({.threads = 2})) {
  TrainingSpec spec = {
      .model = tuning_.ModelOf(ModelPurpose::kTrain, kSeq),
      .batch = 1,
      .training = {.optimizer = AdamW{.decay = 0}, .groups = tuning_.groups()},
      .programs = {{.name = "generate",
                    .model = tuning_.ModelOf(ModelPurpose::kGenerate, kSeq)}}};
  training_ =
      std::make_unique<Training>(Must(Train(std::move(spec), *backend_)));
  training_->Initialize(1);
  Must(tuning_.LoadBase(step()));
}

std::vector<float> TinyTuning::TakeSteps(int64_t count) {
  std::vector<float> losses;
  for (int64_t i = 0; i < count; ++i) {
    Must(step().Write("tokens", Tokens(0)));
    Must(step().Write("targets", Tokens(1)));
    Must(step().Write("lr", 0.01f));
    Must(step().Write("step", ++done_));
    REQUIRE(step().Step() == StepCode::kOk);
    losses.push_back(Must(step().ReadScalar("loss")));
  }
  return losses;
}

std::vector<float> TinyTuning::Logits() {
  Runner& generate = *training_->Find("generate");
  Must(generate.Write("tokens", Tokens(0)));
  REQUIRE(generate.Step() == StepCode::kOk);
  const std::vector<float> logits = Must(ReadFloats(generate, "logits"));
  return {logits.end() - kVocabulary, logits.end()};
}

std::vector<float> TinyTuning::Param(const std::string& name) {
  return Must(ReadFloats(step(), name));
}

// Writes the merged model to a folder, with the config.json of `config_of`, and opens it.
TinyTuning Merged(TinyTuning& tiny, const std::string& config_of,
                  const fs::path& folder) {
  fs::copy_file(kTinyModels + config_of + "/config.json",
                folder / "config.json");
  const OutputFile file =
      Must(OutputFile::Claim((folder / "model.safetensors").string()));
  Must(SaveMerged(tiny.tuning(), tiny.step(), file));
  return TinyTuning(FineTuning::Open(folder.string(), {.lora = {}}));
}

void SaveTo(TinyTuning& tiny, const fs::path& folder) {
  const AdapterFiles files = Must(AdapterFiles::Claim(folder.string()));
  Must(SaveAdapter(tiny.tuning(), tiny.step(), files));
}

// The model beside the adapter of a folder.
TinyTuning WithAdapter(const std::string& model, const std::string& folder) {
  TinyTuning tiny(FineTuning::Open(kTinyModels + model,
                                   {.lora = Must(ReadAdapterRules(folder))}));
  Must(LoadAdapter(tiny.tuning(), folder, tiny.step()));
  return tiny;
}

struct PissaCase {
  std::string model;
  FineTuningOptions options;
};
const std::vector<PissaCase>& PissaCases() {
  static const std::vector<PissaCase> cases = {
      {"llama",
       {.lora = LoraRules{.rank = 4, .alpha = 6, .targets = {}},
        .pissa = true}},
      {"gpt2",
       {.lora =
            LoraRules{
                .rank = 4, .alpha = 3, .rank_stabilized = true, .targets = {}},
        .pissa = true}}};
  return cases;
}

TEST_CASE("three steps of PiSSA give PEFT's losses and logits") {
  const AdapterGoldens goldens = ReadAdapterGoldens();
  for (const PissaCase& c : PissaCases()) {
    CAPTURE(c.model);
    const auto& golden = goldens.at("pissa-" + c.model);
    TinyTuning tiny(FineTuning::Open(kTinyModels + c.model, c.options));
    CHECK(RelativeDifference(tiny.Logits(), golden.at("logits before")) < 1e-5);
    CHECK(RelativeDifference(tiny.TakeSteps(3), golden.at("losses")) < 1e-5);
    CHECK(RelativeDifference(tiny.Logits(), golden.at("logits after")) < 1e-4);
    TinyTuning merged = Merged(tiny, c.model, EmptyFolder("merged"));
    CHECK(RelativeDifference(merged.Logits(), golden.at("logits after")) <
          1e-4);
  }
}

TEST_CASE("what is saved is LoRA of twice the rank beside the original base") {
  const AdapterGoldens goldens = ReadAdapterGoldens();
  for (const PissaCase& c : PissaCases()) {
    CAPTURE(c.model);
    const auto& golden = goldens.at("pissa-" + c.model);
    // PEFT's own, read here.
    const std::string theirs = StrCat(kAdapterGoldens, "pissa-", c.model);
    TinyTuning converted = WithAdapter(c.model, theirs);
    CHECK(RelativeDifference(converted.Logits(), golden.at("logits after")) <
          1e-4);
    TinyTuning tiny(FineTuning::Open(kTinyModels + c.model, c.options));
    tiny.TakeSteps(3);
    const std::filesystem::path folder = EmptyFolder("adapter");
    SaveTo(tiny, folder);
    const auto ours = ReadAdapterRules(folder.string());
    const auto expected = ReadAdapterRules(theirs);
    REQUIRE(ours.ok());
    REQUIRE(expected.ok());
    CHECK(ours->rank == 8);
    CHECK(ours->rank == expected->rank);
    CHECK(ours->alpha == doctest::Approx(expected->alpha).epsilon(1e-12));
    CHECK(ours->rank_stabilized == expected->rank_stabilized);
    TinyTuning again = WithAdapter(c.model, folder.string());
    CHECK(RelativeDifference(again.Logits(), golden.at("logits after")) < 1e-4);
    const auto file =
        WeightsFile::Open((folder / "adapter_model.safetensors").string());
    const auto of_peft =
        WeightsFile::Open(theirs + "/adapter_model.safetensors");
    REQUIRE(file.ok());
    REQUIRE(of_peft.ok());
    CHECK(file->tensors().size() == of_peft->tensors().size());
    for (const WeightTensor& tensor : of_peft->tensors()) {
      CAPTURE(tensor.name);
      REQUIRE(file->Find(tensor.name) != nullptr);
      CHECK(file->Find(tensor.name)->shape == tensor.shape);
    }
  }
}

TEST_CASE("an adapter for llama.cpp has twice the rank, too") {
  TinyTuning tiny(
      FineTuning::Open(kTinyModels + "llama", PissaCases()[0].options));
  const std::string path = (EmptyFolder("gguf") / "adapter.gguf").string();
  const auto file = OutputFile::Claim(path);
  REQUIRE(file.ok());
  const Status saved = SaveAdapterGguf(tiny.tuning(), tiny.step(), *file);
  REQUIRE_MESSAGE(saved.ok(), saved.error().message);
  const auto read = WeightsFile::Open(path);
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  const WeightTensor* const down = read->Find("blk.0.attn_q.weight.lora_a");
  const WeightTensor* const up = read->Find("blk.0.attn_q.weight.lora_b");
  REQUIRE(down != nullptr);
  REQUIRE(up != nullptr);
  CHECK(down->shape == Shape{8, 32});
  CHECK(up->shape == Shape{32, 8});
  // alpha / rank is what it was: 6 / 4.
  CHECK(*read->gguf()->Real("adapter.lora.alpha") == 12);
  // Nothing was learnt: B A is B0 A0.
  std::vector<float> a(8 * 32), b(32 * 8);
  REQUIRE(read->ReadFloats(*down, 0, a).ok());
  REQUIRE(read->ReadFloats(*up, 0, b).ok());
  double largest = 0, of_parts = 0;
  for (size_t out = 0; out < 32; ++out) {
    for (size_t in = 0; in < 32; ++in) {
      double sum = 0, first = 0;
      for (size_t k = 0; k < 8; ++k) {
        const double part = double{b[out * 8 + k]} * double{a[k * 32 + in]};
        sum += part;
        if (k < 4) first += part;
      }
      largest = std::max(largest, std::abs(sum));
      of_parts = std::max(of_parts, std::abs(first));
    }
  }
  CHECK(largest < 1e-9);
  CHECK(of_parts > 0.01);
}

TEST_CASE("a model begins as it is, in bf16 too") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(DTypeName(dtype));
    FineTuningOptions options = PissaCases()[0].options;
    options.dtype = dtype;
    TinyTuning tiny(FineTuning::Open(kTinyModels + "llama", options));
    options.pissa = false;
    TinyTuning plain(FineTuning::Open(kTinyModels + "llama", options));
    const std::vector<float> logits = plain.Logits();
    CHECK(RelativeDifference(tiny.Logits(), {logits.begin(), logits.end()}) <
          (dtype == DType::kF32 ? 1e-5 : 0.03));
  }
}

double SquaredNorm(const std::vector<float>& numbers) {
  double sum = 0;
  for (const float number : numbers) sum += double{number} * double{number};
  return sum;
}

TEST_CASE("the base is what the adapter leaves of it") {
  TinyTuning tiny(
      FineTuning::Open(kTinyModels + "llama", PissaCases()[0].options));
  const PretrainedModel& base = tiny.tuning().base();
  int64_t adapted = 0;
  for (const PretrainedParam& param : base.params()) {
    std::vector<float> whole(static_cast<size_t>(param.shape.num_elements()));
    REQUIRE(base.ReadFloats(param, 0, whole).ok());
    const LoraParams names = LoraParamsOf(param.name);
    if (!tiny.step().graph().Find(names.down)) continue;
    CAPTURE(param.name);
    ++adapted;
    const std::vector<float> left = tiny.Param(param.name);
    // Singular vectors are orthogonal, so the squares of both parts add up.
    const double of_adapter = SquaredNorm(whole) - SquaredNorm(left);
    const std::vector<float> a = tiny.Param(names.down),
                             b = tiny.Param(names.up);
    const auto columns = static_cast<size_t>(param.shape[1]);
    double squares = 0, difference = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      double share = 0;
      for (size_t k = 0; k < 4; ++k) {
        share += double{b[i / columns * 4 + k]} *
                 double{a[k * columns + i % columns]};
      }
      share *= 6.0 / 4;
      squares += share * share;
      difference = std::max(difference, std::abs(whole[i] - left[i] - share));
    }
    CHECK(difference < 1e-6);
    CHECK(of_adapter == doctest::Approx(squares).epsilon(1e-4));
    // Four of 32 directions at random would have an eighth.
    CHECK(squares > 0.2 * SquaredNorm(whole));
  }
  CHECK(adapted == 14);
}

TEST_CASE("what PiSSA cannot begin with is refused by name") {
  const auto tuning =
      FineTuning::Open(kTinyModels + "qwen2.gguf",
                       {.lora = LoraRules{.targets = {}}, .pissa = true});
  REQUIRE_FALSE(tuning.ok());
  CHECK(tuning.error().code == ErrorCode::kUnsupported);
  CHECK(tuning.error().message.find("\"blk.0.attn_q.weight\" in Q") !=
        std::string::npos);
  CHECK(tuning.error().message.find("expected f32, f16 or bf16") !=
        std::string::npos);
  const auto wide = FineTuning::Open(
      kTinyModels + "gpt2",
      {.lora = LoraRules{.rank = 17, .targets = {}}, .pissa = true});
  REQUIRE_FALSE(wide.ok());
  CHECK(wide.error().message ==
        "[pissa] rank 17 beside \"h.0.attn.c_attn.weight\" (32, 96) is saved "
        "as twice that, more than the weight has; expected 1 to 16");
  const auto dora = FineTuning::Open(
      kTinyModels + "gpt2",
      {.lora = LoraRules{.dora = true, .targets = {}}, .pissa = true});
  REQUIRE_FALSE(dora.ok());
  CHECK(dora.error().message.find("leave DoRA out") != std::string::npos);
}

constexpr LoraRules kDora = {.rank = 4, .dora = true, .targets = {}};

std::string GoldenFolder(const std::string& model) {
  return StrCat(kAdapterGoldens, "dora-", model);
}

struct DoraCase {
  std::string name, model, config_of;
};
const std::vector<DoraCase>& DoraCases() {
  static const std::vector<DoraCase> cases = {{"llama", "llama.gguf", "llama"},
                                              {"gpt2", "gpt2", "gpt2"}};
  return cases;
}

TEST_CASE("three steps of DoRA give PEFT's losses, params and logits") {
  const AdapterGoldens goldens = ReadAdapterGoldens();
  for (const DoraCase& c : DoraCases()) {
    CAPTURE(c.name);
    const auto& golden = goldens.at("dora-" + c.name);
    TinyTuning tiny = WithAdapter(c.model, GoldenFolder(c.name));
    CHECK(tiny.tuning().options().lora->dora);
    CHECK(RelativeDifference(tiny.Logits(), golden.at("logits before")) < 1e-5);
    CHECK(RelativeDifference(tiny.TakeSteps(3), golden.at("losses")) < 1e-5);
    int64_t elements = 0, magnitudes = 0;
    for (const auto& row : golden) {
      const std::string& name = row.first;
      const std::vector<double>& numbers = row.second;
      if (!IsLoraParam(name)) continue;
      CAPTURE(name);
      CHECK(RelativeDifference(tiny.Param(name), numbers) < 1e-4);
      elements += std::ssize(numbers);
      if (name.ends_with("lora_magnitude_vector")) ++magnitudes;
    }
    CHECK(magnitudes > 0);
    CHECK(tiny.tuning().trainable_params() == elements);
    CHECK(RelativeDifference(tiny.Logits(), golden.at("logits after")) < 1e-4);
    // PEFT's logits are those of the merged model, too.
    TinyTuning merged = Merged(tiny, c.config_of, EmptyFolder("merged"));
    CHECK(RelativeDifference(merged.Logits(), golden.at("logits after")) <
          1e-4);
  }
}

TEST_CASE("an adapted model begins as it is") {
  for (const DoraCase& c : DoraCases()) {
    CAPTURE(c.name);
    TinyTuning adapted(
        FineTuning::Open(kTinyModels + c.model, {.lora = kDora}));
    TinyTuning plain(FineTuning::Open(kTinyModels + c.model,
                                      {.lora = LoraRules{.targets = {}}}));
    const std::vector<float> logits = plain.Logits();
    CHECK(RelativeDifference(adapted.Logits(), {logits.begin(), logits.end()}) <
          1e-6);
  }
}

TEST_CASE("by LoRA+ magnitudes learn as fast as lora_B, as in PEFT") {
  for (const double plus : {1.0, 16.0}) {
    TinyTuning tiny(FineTuning::Open(kTinyModels + "gpt2",
                                     {.lora = kDora, .lora_plus = plus}));
    const std::string name = "h.0.attn.c_attn.lora_magnitude_vector";
    const std::vector<float> before = tiny.Param(name);
    tiny.TakeSteps(1);
    const std::vector<float> after = tiny.Param(name);
    for (size_t i = 0; i < before.size(); ++i) {
      // A first step of AdamW is the learning rate.
      CHECK(std::abs(after[i] - before[i]) ==
            doctest::Approx(0.01 * plus).epsilon(1e-3));
    }
  }
}

TEST_CASE("no value of a step is as large as an adapted matrix") {
  TinyTuning tiny = WithAdapter("llama.gguf", GoldenFolder("llama"));
  const Graph& graph = tiny.step().graph();
  int64_t squared_norms = 0;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    if (info.name.ends_with(".lora_squared_norm")) {
      ++squared_norms;
      CHECK(info.type.shape.rank() == 1);
    }
    // Matrices are 32 x 32 at least; activations 12 x 64 and 4 heads of 12 x 12 at most.
    if (!info.is_leaf()) CHECK(info.type.shape.num_elements() < 32 * 32);
  }
  CHECK(squared_norms == 14);
  CHECK(tiny.tuning().frozen_bytes() >
        FineTuning::Open(kTinyModels + "llama.gguf")->frozen_bytes());
}

TEST_CASE("saved magnitudes are PEFT's tensors, and go on where they were") {
  for (const DoraCase& c : DoraCases()) {
    CAPTURE(c.name);
    TinyTuning tiny = WithAdapter(c.model, GoldenFolder(c.name));
    tiny.TakeSteps(2);
    const std::vector<float> logits = tiny.Logits();
    const std::filesystem::path folder = EmptyFolder("adapter");
    SaveTo(tiny, folder);
    TinyTuning again = WithAdapter(c.model, folder.string());
    CHECK(again.tuning().options().lora->dora);
    CHECK(again.Logits() == logits);
    const auto ours =
        WeightsFile::Open((folder / "adapter_model.safetensors").string());
    const auto theirs =
        WeightsFile::Open(GoldenFolder(c.name) + "/adapter_model.safetensors");
    REQUIRE(ours.ok());
    REQUIRE(theirs.ok());
    CHECK(ours->tensors().size() == theirs->tensors().size());
    for (const WeightTensor& tensor : theirs->tensors()) {
      CAPTURE(tensor.name);
      const WeightTensor* const own = ours->Find(tensor.name);
      REQUIRE(own != nullptr);
      CHECK(own->shape == tensor.shape);
    }
  }
}

TEST_CASE("checkpoints leave out what the base decides") {
  TinyTuning tiny = WithAdapter("llama.gguf", GoldenFolder("llama"));
  const auto base = tiny.tuning().BaseOfCheckpoints();
  REQUIRE(base.ok());
  int64_t norms = 0;
  for (const std::string& name : base->params) {
    if (name.ends_with(".lora_squared_norm")) ++norms;
    CHECK_FALSE(IsLoraParam(name));
  }
  CHECK(norms == 14);
}

TEST_CASE("an adapter with magnitudes is no GGUF file's") {
  TinyTuning tiny(FineTuning::Open(kTinyModels + "gpt2", {.lora = kDora}));
  const auto file =
      OutputFile::Claim((EmptyFolder("gguf") / "adapter.gguf").string());
  REQUIRE(file.ok());
  const Status saved = SaveAdapterGguf(tiny.tuning(), tiny.step(), *file);
  REQUIRE_FALSE(saved.ok());
  CHECK(saved.error().code == ErrorCode::kUnsupported);
  CHECK(saved.error().message.find("no magnitudes, which DoRA trains") !=
        std::string::npos);
}

// x (1, 3) times a weight of two outputs, as rows or as columns.
Graph OneLayer(bool rows_are_outputs, DType dtype) {
  GraphBuilder g("layer");
  const Value x = g.Input("x", dtype, {1, 3});
  const Shape shape = rows_are_outputs ? Shape{2, 3} : Shape{3, 2};
  const Value w = g.Param("fc.weight", dtype, shape);
  g.Output("y", MatMul(x, w, false, rows_are_outputs));
  const auto adapted =
      WithLora(*g.Finish(), {.rank = 1, .alpha = 1, .dora = true});
  REQUIRE_MESSAGE(adapted.ok(), adapted.error().message);
  return *adapted;
}

TEST_CASE("magnitudes are the lengths of each output's weights") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (const bool rows : {true, false}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      CAPTURE(rows);
      CAPTURE(DTypeName(dtype));
      const Graph adapted = OneLayer(rows, dtype);
      auto session = Session::Create(
          {{"p", adapted, *PlanMemory(adapted, {.device = cpu->Needs()})}},
          *cpu);
      REQUIRE_MESSAGE(session.ok(), session.error().message);
      Runner& runner = session->front();
      session->Initialize(1);
      const auto give = [&](const std::vector<float>& weights) {
        REQUIRE(WriteFloats(runner, "fc.weight", 0, weights).ok());
        return StartDora(adapted, runner);
      };
      // (3, 4, 0) and (0, 5, 12).
      const Status given = give(rows ? std::vector<float>{3, 4, 0, 0, 5, 12}
                                     : std::vector<float>{3, 0, 4, 5, 0, 12});
      REQUIRE_MESSAGE(given.ok(), given.error().message);
      CHECK(*ReadFloats(runner, "fc.lora_magnitude_vector") ==
            std::vector<float>{5, 13});
      CHECK(*ReadFloats(runner, "fc.lora_squared_norm") ==
            std::vector<float>{25, 169});
      // One output without weights.
      const Status zero = give(rows ? std::vector<float>{3, 4, 0, 0, 0, 0}
                                    : std::vector<float>{3, 0, 4, 0, 0, 0});
      REQUIRE_FALSE(zero.ok());
      CHECK(zero.error().message.find(
                "the weights of output 1 of \"fc.weight\" are all zero") !=
            std::string::npos);
    }
  }
}

}  // namespace
}  // namespace stowage
