// DoRA beside tiny models, trained, merged and kept as PEFT does it
// (tests/goldens/make_adapter_goldens.py).

#include "train/dora.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "formats/weights_file.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "nn/lora.h"
#include "planner/plan.h"
#include "runtime/floats.h"
#include "runtime/session.h"
#include "tests/train/tiny_tuning.h"
#include "train/adapter_files.h"
#include "train/gguf_export.h"

namespace stowage::testing {
namespace {

constexpr LoraRules kDora = {.rank = 4, .dora = true, .targets = {}};

std::string GoldenFolder(const std::string& model) {
  return StrCat(kAdapterGoldens, "dora-", model);
}

struct Case {
  std::string name, model, config_of;
};
const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {{"llama", "llama.gguf", "llama"},
                                          {"gpt2", "gpt2", "gpt2"}};
  return cases;
}

TEST_CASE("three steps of DoRA give PEFT's losses, params and logits") {
  const AdapterGoldens goldens = ReadAdapterGoldens();
  for (const Case& c : Cases()) {
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
  for (const Case& c : Cases()) {
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
  for (const Case& c : Cases()) {
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
}  // namespace stowage::testing
