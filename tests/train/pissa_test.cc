// PiSSA beside tiny models, trained, merged and saved as PEFT does it
// (tests/goldens/make_adapter_goldens.py).

#include "train/pissa.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "formats/weights_file.h"
#include "nn/lora.h"
#include "tests/train/tiny_tuning.h"
#include "train/adapter_files.h"
#include "train/gguf_export.h"

namespace stowage::testing {
namespace {

struct Case {
  std::string model;
  FineTuningOptions options;
};
const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
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
  for (const Case& c : Cases()) {
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
  for (const Case& c : Cases()) {
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
  TinyTuning tiny(FineTuning::Open(kTinyModels + "llama", Cases()[0].options));
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
    FineTuningOptions options = Cases()[0].options;
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
  TinyTuning tiny(FineTuning::Open(kTinyModels + "llama", Cases()[0].options));
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

}  // namespace
}  // namespace stowage::testing
