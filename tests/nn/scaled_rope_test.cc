#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "ir/graph.h"
#include "ir/weight_type.h"
#include "nn/llama.h"
#include "nn/rope_scaling.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"

namespace stowage {
namespace {

constexpr ModelOptions kOptions = {.batch = 2, .seq = 6};

LlamaConfig Tiny() {
  LlamaConfig config;
  config.name = "tiny";
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.width = 32;
  config.hidden = 24;
  config.vocabulary = 20;
  config.max_seq = 8;
  return config;
}

// Losses of three steps by SGD.
std::vector<float> Losses(const LlamaConfig& config) {
  const auto forward = BuildLlama(config, ModelPurpose::kTrain, kOptions);
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Graph step = *BuildTrainStep(*forward, "loss", {.optimizer = Sgd{}});
  const auto cpu = MakeCpuBackend({.threads = 1});
  auto session = Session::Create(
      {{"train", step, *PlanMemory(step, {.device = cpu->Needs()})}}, *cpu);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  session->Initialize(3);
  Runner& train = session->front();
  std::vector<int32_t> tokens, targets;
  for (int32_t i = 0; i < 12; ++i) {
    tokens.push_back(i * 7 % 20);
    targets.push_back((i + 1) * 7 % 20);
  }
  // Large, so that queries and keys matter.
  std::vector<float> wide(static_cast<size_t>(32 * 32));
  for (size_t i = 0; i < wide.size(); ++i) {
    wide[i] = 0.5f * static_cast<float>(std::sin(static_cast<double>(i)));
  }
  REQUIRE(train.Write("model.layers.0.self_attn.q_proj.weight", wide).ok());
  wide.resize(static_cast<size_t>(32 * 16));
  REQUIRE(train.Write("model.layers.0.self_attn.k_proj.weight", wide).ok());
  REQUIRE(train.Write("tokens", tokens).ok());
  REQUIRE(train.Write("targets", targets).ok());
  REQUIRE(train.Write("lr", 1.0f).ok());
  std::vector<float> losses;
  for (int64_t i = 1; i <= 3; ++i) {
    REQUIRE(train.Write("step", i).ok());
    const StepCode code = train.Step();
    REQUIRE_MESSAGE(code == StepCode::kOk, train.Explain(code).message);
    losses.push_back(*train.ReadScalar("loss"));
  }
  return losses;
}

TEST_CASE(
    "factors of 1 are rope as it is, in training too, and others are not") {
  const std::vector<float> plain = Losses(Tiny());
  LlamaConfig config = Tiny();
  config.rope_factors = {1, 1, 1, 1};
  const std::vector<float> ones = Losses(config);
  config.rope_factors = {64, 1, 1, 1};
  const std::vector<float> slower = Losses(config);
  double apart = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    CHECK(std::abs(ones[i] - plain[i]) <= 1e-5f * plain[i]);
    apart += std::abs(slower[i] - plain[i]);
  }
  CHECK(plain[2] < plain[0]);
  CHECK(apart > 1e-4);
}

// Wavelengths of 6.28 x 10^(2 pair) in 8192 first positions, worked out by hand: pairs 0
// and 1 turn 1304 and 13 times, 2 and 3 less than once.
TEST_CASE(
    "Llama 3 leaves short waves, stretches long ones, and mixes between") {
  CHECK(Llama3RopeFactors(8, 1e8, {}) == std::vector<double>{1, 1, 8, 8});
  // Pair 2 turns 0.130 times in 8192 positions, 2.086 times in 131072: with x = (2.086
  // - 1) / 3 = 0.3620, 1 / ((1 - x) / 8 + x) = 2.2636.
  const std::vector<double> mixed =
      Llama3RopeFactors(8, 1e8, {.original_positions = 131072});
  CHECK(mixed[1] == 1);
  CHECK(std::abs(mixed[2] - 2.2636) < 1e-4);
  CHECK(mixed[3] == 8);
}

TEST_CASE("a Llama has as many params as are counted, whatever it is made of") {
  for (int flags = 0; flags < 64; ++flags) {
    INFO(flags);
    LlamaConfig config = Tiny();
    config.qkv_bias = flags & 1;
    config.out_bias = flags & 2;
    config.mlp_bias = flags & 4;
    config.qk_norm = flags & 8 ? QkNorm::kEachHead : QkNorm::kNone;
    config.tied_head = flags & 16;
    config.out_in = flags & 32;
    config.head_size = flags & 1 ? 6 : 0;
    const auto graph = BuildLlama(config, ModelPurpose::kTrain, kOptions);
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    CHECK(ParameterCount(*graph) == LlamaParameterCount(config));
  }
}

TEST_CASE("heads, windows and factors that cannot be are refused") {
  const auto refusal = [](auto change) {
    LlamaConfig config = Tiny();
    change(config);
    const auto graph = BuildLlama(config, ModelPurpose::kTrain, kOptions);
    REQUIRE_FALSE(graph.ok());
    return graph.error().message;
  };
  CHECK(refusal([](LlamaConfig& c) { c.head_size = 7; }) ==
        "[model] tiny has heads of 7 elements; expected an even number, for "
        "they turn in pairs");
  CHECK(refusal([](LlamaConfig& c) { c.rope_dims = 3; }) ==
        "[model] tiny turns 3 elements of heads of 8; expected an even number "
        "of them, or 0 for all");
  CHECK(refusal([](LlamaConfig& c) { c.layer_kinds.resize(5); }) ==
        "[model] tiny has kinds of 5 layers, and 2 layers; expected one of "
        "each");
  CHECK(refusal([](LlamaConfig& c) { c.qkv = QkvLayers::kHeadByHead; }) ==
        "[model] tiny has 4 heads and 2 kv_heads, which stand head by head; "
        "these must be equal");
  CHECK(refusal([](LlamaConfig& c) { c.window = -1; }) ==
        "[model] tiny has a window of -1; expected 0 or more");
  CHECK(refusal([](LlamaConfig& c) {
          c.rope_factors = {1, 2};
        }) ==
        "[model] tiny has 2 factors of rope for heads of 8 elements; expected "
        "one a pair, 4");
  CHECK(refusal([](LlamaConfig& c) {
          c.rope_factors = {1, 2, -1, 1};
        }) ==
        "[model] tiny has a factor of rope of -1; expected finite numbers "
        "above 0");
}

}  // namespace
}  // namespace stowage
