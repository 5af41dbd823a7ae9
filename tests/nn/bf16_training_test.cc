// Training in bf16: what a step keeps for each param, and that the arithmetic,
// by definition of the ops with every bf16 value rounded, learns as f32 does.

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "ir/graph.h"
#include "nn/gpt.h"
#include "nn/models.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

Bytes BytesOf(const Graph& graph, Role role) {
  Bytes bytes = 0;
  for (const ValueId id : graph.Leaves(role)) {
    bytes += graph.value(id).type.bytes();
  }
  return bytes;
}

// Of batch norms' statistics, which are no optimizer's.
Bytes RunningBytes(const Graph& graph) {
  Bytes bytes = 0;
  for (const ValueId id : graph.Leaves(Role::kState)) {
    const ValueInfo& info = graph.value(id);
    const bool runs = info.name.find(".running_") != std::string::npos;
    if (runs) bytes += info.type.bytes();
  }
  return bytes;
}

Graph StepOf(const Result<Graph>& forward, const TrainOptions& options = {}) {
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  Result<Graph> step = BuildTrainStep(*forward, "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

TEST_CASE("AdamW in bf16 takes 14 bytes a param: 2 + 2 + 10") {
  for (const ModelInfo& info : Models()) {
    CAPTURE(std::string(info.name));
    for (const std::optional<double> clip : {std::optional<double>(), {1.0}}) {
      const Graph step = StepOf(
          BuildModel(info.name, ModelPurpose::kTrain,
                     {.batch = 2, .dtype = DType::kBF16, .dropout = 0.1}),
          {.clip_norm = clip});
      CHECK(BytesOf(step, Role::kParam) == 2 * info.params);
      CHECK(BytesOf(step, Role::kState) - RunningBytes(step) ==
            10 * info.params);
      for (const ValueId id : step.Leaves(Role::kParam)) {
        // The update's result is the param's new content; its gradient is g.
        const ValueId updated = *step.Find("new:" + step.value(id).name);
        const Node& update = step.node(step.value(updated).producer);
        CHECK(update.op == OpKind::kAdamWSplitUpdate);
        CHECK(step.value(update.inputs[4]).type == step.value(id).type);
      }
    }
  }
}

TEST_CASE("the other optimizers keep their states in bf16") {
  const auto forward = BuildModel("gpt-nano", ModelPurpose::kTrain,
                                  {.batch = 1, .dtype = DType::kBF16});
  const Bytes params = 2 * FindModel("gpt-nano")->params;
  CHECK(BytesOf(StepOf(forward, {.optimizer = Sgd{}}), Role::kState) == 0);
  CHECK(BytesOf(StepOf(forward, {.optimizer = Momentum{}}), Role::kState) ==
        params);
}

// Losses of `steps` steps on one batch, by the interpreter, from the same start.
std::vector<double> Losses(const Graph& step, int steps) {
  std::mt19937_64 random(5);
  const auto uniform = [&] {
    return static_cast<double>(random() >> 11) * 0x1p-52 - 1;
  };
  Tensors leaves;
  for (const ValueInfo& info : step.values()) {
    if (!info.is_leaf()) continue;
    std::vector<double>& data = leaves[info.name];
    const bool is_gain = info.name.find("ln_") != std::string::npos &&
                         info.name.ends_with("weight");
    for (int64_t i = 0; i < info.type.shape.num_elements(); ++i) {
      if (info.role == Role::kState) {
        data.push_back(0);
      } else if (info.role == Role::kParam) {
        data.push_back(is_gain ? 1 : 0.3 * uniform());
      } else {
        data.push_back(static_cast<double>(random() % 11));
      }
    }
  }
  std::vector<double> losses;
  for (int t = 1; t <= steps; ++t) {
    leaves["lr"] = {0.01};
    leaves["step"] = {static_cast<double>(t)};
    const Tensors values = Interpret(step, leaves, Rounding::kTo16Bits);
    losses.push_back(values.at("loss")[0]);
    CarryOver(step, values, &leaves);
  }
  return losses;
}

TEST_CASE("a bf16 gpt learns a batch as it does in f32, by chunks or not") {
  const GptConfig config{.name = "tiny",
                         .layers = 2,
                         .heads = 2,
                         .width = 8,
                         .vocabulary = 11,
                         .max_seq = 6};
  const auto losses = [&](DType dtype, int64_t chunk) {
    return Losses(
        StepOf(BuildGpt(
            config, ModelPurpose::kTrain,
            {.batch = 2, .seq = 6, .dtype = dtype, .logit_chunk = chunk})),
        30);
  };
  const std::vector<double> f32 = losses(DType::kF32, 0);
  const std::vector<double> whole = losses(DType::kBF16, 0);
  const std::vector<double> chunked = losses(DType::kBF16, 5);
  CHECK(f32.back() < 0.5 * f32.front());
  for (size_t i = 0; i < f32.size(); ++i) {
    CAPTURE(i);
    CHECK(whole[i] == doctest::Approx(f32[i]).epsilon(0.05));
    CHECK(chunked[i] == doctest::Approx(f32[i]).epsilon(0.05));
  }
  CHECK(whole != f32);
}

}  // namespace
}  // namespace stowage
