// Adapters put beside the layers of a graph, and frozen matrices in blocks.

#include "nn/lora.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "formats/gguf.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"
#include "nn/layers.h"
#include "nn/quantized_params.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

using Numbers = std::vector<double>;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Graph Good(Result<Graph> graph) {
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

// An embedding, a layer of each layout, and the embedding again as the head.
Graph Model() {
  GraphBuilder g("model");
  const Value tokens = g.Input("tokens", DType::kI32, {3});
  const Value targets = g.Input("targets", DType::kI32, {3});
  const EmbeddingResults embedding =
      Embedding(tokens, "embed.weight", 5, 32, DType::kF32);
  const Value h = Relu(Linear(embedding.rows, "up_proj", 64, {.out_in = true}));
  const Value x = Linear(h, "down_proj", 32, {.bias = false});
  const Value loss = LinearCrossEntropy(x, embedding.table, targets, 2);
  g.Output("loss", g.Name("loss", loss));
  return Good(g.Finish());
}

Numbers Random(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Numbers numbers;
  for (size_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<double>(random() % 2048) / 1024 - 1);
  }
  return numbers;
}

Tensors Leaves() {
  return {{"tokens", {4, 0, 2}},
          {"targets", {0, 2, 3}},
          {"embed.weight", Random(5 * 32, 1)},
          {"up_proj.weight", Random(64 * 32, 2)},
          {"up_proj.bias", Random(64, 3)},
          {"down_proj.weight", Random(64 * 32, 4)}};
}

TEST_CASE("adapters beside the layers of a graph are W + alpha / rank B A") {
  const Graph model = Model();
  const Graph adapted = Good(
      WithLora(model, {.rank = 2, .alpha = 6, .targets = {"*_proj.weight"}}));
  Tensors leaves = Leaves();
  const double before = Interpret(model, leaves).at("loss")[0];
  leaves["up_proj.lora_A.weight"] = Random(2 * 32, 5);
  leaves["up_proj.lora_B.weight"] = Numbers(64 * 2, 0);
  leaves["down_proj.lora_A.weight"] = Random(2 * 64, 6);
  leaves["down_proj.lora_B.weight"] = Numbers(32 * 2, 0);
  CHECK(Interpret(adapted, leaves).at("loss")[0] == before);

  const Numbers up_b = Random(64 * 2, 7), down_b = Random(32 * 2, 8);
  leaves["up_proj.lora_B.weight"] = up_b;
  leaves["down_proj.lora_B.weight"] = down_b;
  Tensors merged = Leaves();
  for (size_t out = 0; out < 64; ++out) {
    for (size_t in = 0; in < 32; ++in) {
      for (size_t r = 0; r < 2; ++r) {
        merged["up_proj.weight"][out * 32 + in] +=
            3 * up_b[out * 2 + r] *
            leaves["up_proj.lora_A.weight"][r * 32 + in];
        // The other layer's weight lies (in, out).
        merged["down_proj.weight"][out * 32 + in] +=
            3 * down_b[in * 2 + r] *
            leaves["down_proj.lora_A.weight"][r * 64 + out];
      }
    }
  }
  const double expected = Interpret(model, merged).at("loss")[0];
  CHECK(std::abs(expected - before) > 0.1);
  CHECK(std::abs(Interpret(adapted, leaves).at("loss")[0] - expected) < 1e-9);

  std::vector<std::string> params;
  for (const ValueId id : adapted.Leaves(Role::kParam)) {
    params.push_back(adapted.value(id).name);
  }
  CHECK(params == std::vector<std::string>{
                      "embed.weight", "up_proj.weight", "up_proj.bias",
                      "down_proj.weight", "up_proj.lora_A.weight",
                      "up_proj.lora_B.weight", "down_proj.lora_A.weight",
                      "down_proj.lora_B.weight"});
  CHECK(IsLoraParam(params.back()));
  CHECK_FALSE(IsLoraParam(params.front()));
}

TEST_CASE("an output that is adapted is the sum") {
  GraphBuilder g("head");
  const Value x = g.Input("x", DType::kF64, {2, 3});
  g.Output("logits", MatMul(x, g.Param("head.weight", DType::kF64, {3, 4})));
  const Graph graph = g.Finish().value();
  const auto adapted = WithLora(graph, {.rank = 1, .alpha = 2});
  REQUIRE_MESSAGE(adapted.ok(), adapted.error().message);
  Tensors values = Interpret(
      *adapted, {{"x", {1, 2, 3, 4, 5, 6}},
                 {"head.weight", {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}},
                 {"head.lora_A.weight", {1, 1, 1}},
                 {"head.lora_B.weight", {0, 0, 0, 1}}});
  CHECK(values["logits"] == std::vector<double>{1, 2, 3, 12, 4, 5, 6, 30});
  CHECK(values["logits.base"] == std::vector<double>{1, 2, 3, 0, 4, 5, 6, 0});
}

TEST_CASE("an adapter begins as PEFT's: A within 1/sqrt(in), B at zero") {
  const Graph adapted =
      Good(WithLora(Model(), {.rank = 2, .targets = {"*_proj.weight"}}));
  const auto init = [&](std::string_view param) {
    return adapted.value(*adapted.Find(param)).init;
  };
  CHECK(init("up_proj.lora_A.weight") == Init::Uniform(1 / std::sqrt(32.0)));
  CHECK(init("down_proj.lora_A.weight") == Init::Uniform(1 / std::sqrt(64.0)));
  CHECK(init("up_proj.lora_B.weight") == Init::Zeros());
  CHECK(init("down_proj.lora_B.weight") == Init::Zeros());
}

// W + factor B A of each layer, (out, in), and the lengths of its rows.
struct Directed {
  Numbers weights, lengths;
};
Directed Direct(const Tensors& leaves, const std::string& layer, bool out_in,
                size_t outputs, size_t inputs, size_t rank, double factor) {
  const Numbers& w = leaves.at(layer + ".weight");
  const Numbers& a = leaves.at(layer + ".lora_A.weight");
  const Numbers& b = leaves.at(layer + ".lora_B.weight");
  Directed directed{.weights = Numbers(outputs * inputs),
                    .lengths = Numbers(outputs)};
  for (size_t out = 0; out < outputs; ++out) {
    double squares = 0;
    for (size_t in = 0; in < inputs; ++in) {
      double number = w[out_in ? out * inputs + in : in * outputs + out];
      for (size_t r = 0; r < rank; ++r) {
        number += factor * b[out * rank + r] * a[r * inputs + in];
      }
      directed.weights[out * inputs + in] = number;
      squares += number * number;
    }
    directed.lengths[out] = std::sqrt(squares);
  }
  return directed;
}

// The params of an adapter with magnitudes beside a layer.
void AddDora(Tensors* leaves, const std::string& layer, bool out_in,
             size_t outputs, size_t inputs) {
  const Numbers w = leaves->at(layer + ".weight");
  Numbers squares(outputs);
  for (size_t i = 0; i < w.size(); ++i) {
    squares[out_in ? i / inputs : i % outputs] += w[i] * w[i];
  }
  (*leaves)[layer + ".lora_A.weight"] = Random(2 * inputs, 5);
  (*leaves)[layer + ".lora_B.weight"] = Random(outputs * 2, 6);
  (*leaves)[layer + ".lora_magnitude_vector"] = Random(outputs, 7);
  (*leaves)[layer + ".lora_squared_norm"] = squares;
}

TEST_CASE("by DoRA each output's weights have its magnitude as their length") {
  const Graph model = Model();
  for (const bool stabilized : {false, true}) {
    const double factor = stabilized ? 6 / std::sqrt(2.0) : 3;
    const Graph adapted = Good(WithLora(model, {.rank = 2,
                                                .alpha = 6,
                                                .rank_stabilized = stabilized,
                                                .dora = true,
                                                .targets = {"*_proj.weight"}}));
    Tensors leaves = Leaves(), merged = Leaves();
    for (const bool up : {true, false}) {
      const std::string layer = up ? "up_proj" : "down_proj";
      const size_t outputs = up ? 64 : 32, inputs = up ? 32 : 64;
      AddDora(&leaves, layer, up, outputs, inputs);
      const Directed directed =
          Direct(leaves, layer, up, outputs, inputs, 2, factor);
      Numbers& w = merged[layer + ".weight"];
      for (size_t i = 0; i < w.size(); ++i) {
        const size_t out = up ? i / inputs : i % outputs;
        const size_t in = up ? i % inputs : i / outputs;
        w[i] = leaves[layer + ".lora_magnitude_vector"][out] /
               directed.lengths[out] * directed.weights[out * inputs + in];
      }
    }
    const double expected = Interpret(model, merged).at("loss")[0];
    CHECK(std::abs(expected - Interpret(model, Leaves()).at("loss")[0]) > 0.1);
    CHECK(std::abs(Interpret(adapted, leaves).at("loss")[0] - expected) < 1e-9);
  }
}

TEST_CASE("with dropout the base alone reads all of its inputs, as in PEFT") {
  GraphBuilder g("layer");
  const Value x = g.Input("x", DType::kF64, {2, 16});
  g.Output("y", MatMul(x, g.Param("fc.weight", DType::kF64, {16, 5})));
  const Graph adapted = Good(WithLora(
      Good(g.Finish()), {.rank = 2, .alpha = 6, .dropout = 0.5, .dora = true}));
  Tensors leaves = {{"x", Random(32, 1)},
                    {"fc.weight", Random(16 * 5, 2)},
                    {"seed", {3}},
                    {"step", {1}}};
  AddDora(&leaves, "fc", false, 5, 16);
  const Tensors values = Interpret(adapted, leaves);
  Numbers dropped;
  for (const Node& node : adapted.nodes()) {
    if (node.op != OpKind::kDropout) continue;
    dropped = values.at(adapted.value(node.results[0]).name);
  }
  REQUIRE(dropped.size() == 32);
  CHECK(std::ranges::count(dropped, 0.0) > 4);
  // PEFT: W x + (m / |w| - 1) W x' + m / |w| (factor B A x').
  const Directed directed = Direct(leaves, "fc", false, 5, 16, 2, 3);
  for (size_t row = 0; row < 2; ++row) {
    for (size_t out = 0; out < 5; ++out) {
      double base = 0, base_of_dropped = 0, all_of_dropped = 0;
      for (size_t in = 0; in < 16; ++in) {
        const double w = leaves["fc.weight"][in * 5 + out];
        base += w * leaves["x"][row * 16 + in];
        base_of_dropped += w * dropped[row * 16 + in];
        all_of_dropped +=
            directed.weights[out * 16 + in] * dropped[row * 16 + in];
      }
      const double scale =
          leaves["fc.lora_magnitude_vector"][out] / directed.lengths[out];
      const double expected = base + (scale - 1) * base_of_dropped +
                              scale * (all_of_dropped - base_of_dropped);
      CHECK(std::abs(values.at("y")[row * 5 + out] - expected) < 1e-9);
    }
  }
}

TEST_CASE("the length of a row has no gradient, as the paper has it") {
  GraphBuilder g("layer");
  const Value x = g.Input("x", DType::kF64, {1, 16});
  const Value y = MatMul(x, g.Param("fc.weight", DType::kF64, {16, 5}));
  g.Output("loss", g.Name("loss", ReduceSum(y)));
  const Graph adapted =
      Good(WithLora(Good(g.Finish()), {.rank = 2, .alpha = 2, .dora = true}));
  const Graph step = Good(BuildTrainStep(
      adapted, "loss",
      {.optimizer = Sgd{},
       .groups = {{.pattern = "*.lora_squared_norm", .frozen = true},
                  {.pattern = "fc.weight", .frozen = true}}}));
  Tensors leaves = {{"x", Random(16, 1)},
                    {"fc.weight", Random(16 * 5, 2)},
                    {"lr", {1}},
                    {"step", {1}}};
  AddDora(&leaves, "fc", false, 5, 16);
  Tensors after = leaves;
  CarryOver(step, Interpret(step, leaves), &after);
  const Directed directed = Direct(leaves, "fc", false, 5, 16, 2, 1);
  for (size_t out = 0; out < 5; ++out) {
    double y_of_out = 0;
    for (size_t in = 0; in < 16; ++in) {
      y_of_out += directed.weights[out * 16 + in] * leaves["x"][in];
    }
    const double length = directed.lengths[out];
    const double magnitude = leaves["fc.lora_magnitude_vector"][out];
    // The step is minus the gradient.
    CHECK(after["fc.lora_magnitude_vector"][out] ==
          doctest::Approx(magnitude - y_of_out / length).epsilon(1e-9));
    for (size_t r = 0; r < 2; ++r) {
      double thin = 0;  // A x
      for (size_t in = 0; in < 16; ++in) {
        thin += leaves["fc.lora_A.weight"][r * 16 + in] * leaves["x"][in];
      }
      CHECK(after["fc.lora_B.weight"][out * 2 + r] ==
            doctest::Approx(leaves["fc.lora_B.weight"][out * 2 + r] -
                            magnitude / length * thin)
                .epsilon(1e-9));
    }
  }
}

TEST_CASE("a target names a layer in whole, or the end of it behind a dot") {
  constexpr std::string_view kWeight = "model.layers.0.self_attn.q_proj.weight";
  for (const char* target :
       {"q_proj", "self_attn.q_proj", "0.self_attn.q_proj",
        "model.layers.0.self_attn.q_proj", "*_proj", "layers.*.q_proj",
        "*.q_proj.weight", "*_proj.weight", "q_proj.weight", "?_proj", "*"}) {
    INFO(std::string(target));
    const bool in_whole_alone =
        std::string_view(target) == "q_proj.weight";  // no layer is called so
    CHECK(MeansLayer(target, kWeight) == !in_whole_alone);
  }
  for (const char* target :
       {"proj", "_proj", "q", "attn.q_proj", "layers.0", "layers.1.*q_proj",
        "q_proj.weigh", "q_projx", "Q_proj", ".q_proj", ""}) {
    INFO(std::string(target));
    CHECK_FALSE(MeansLayer(target, kWeight));
  }
  // A table's name has no end to leave away.
  CHECK(MeansLayer("wte", "wte"));
  CHECK(MeansLayer("fc1", "fc1.weight"));
  CHECK_FALSE(MeansLayer("c1", "fc1.weight"));

  const Graph adapted = Good(WithLora(Model(), {.targets = {"up_proj"}}));
  CHECK(adapted.Find("up_proj.lora_A.weight"));
  CHECK_FALSE(adapted.Find("down_proj.lora_A.weight"));
  const auto part = WithLora(Model(), {.targets = {"proj"}});
  REQUIRE_FALSE(part.ok());
  CHECK(Contains(part.error().message, "is called \"proj\""));
}

TEST_CASE("an adapter's dropout is of what goes into it, and of training") {
  const Graph adapted = Good(WithLora(
      Model(), {.rank = 2, .dropout = 0.5, .targets = {"up_proj.weight"}}));
  CHECK(adapted.Find("seed"));
  int dropouts = 0;
  for (const Node& node : adapted.nodes()) {
    if (node.op == OpKind::kDropout) ++dropouts;
  }
  CHECK(dropouts == 1);
  CHECK_FALSE(
      Good(WithLora(Model(), {.targets = {"up_proj.weight"}})).Find("seed"));
}

TEST_CASE("adapters and the model itself drop by masks of their own") {
  GraphBuilder g("model");
  const Value x = g.Input("x", DType::kF32, {4, 8});
  Dropouts own(g.Input("seed", DType::kI64, {}),
               g.Input("step", DType::kI64, {}), 0.25);
  const Value h = own.Apply(Linear(own.Apply(x), "first", 8));
  g.Output("y", Linear(h, "second", 8));
  const Graph adapted = Good(WithLora(
      Good(g.Finish()), {.rank = 2, .dropout = 0.5, .targets = {"*.weight"}}));
  std::set<int64_t> ids;
  std::multiset<double> rates;
  for (const Node& node : adapted.nodes()) {
    if (node.op != OpKind::kDropout) continue;
    ids.insert(node.attrs.Int("id"));
    rates.insert(node.attrs.Float("p"));
  }
  CHECK(ids.size() == 4);
  CHECK(rates == std::multiset<double>{0.25, 0.25, 0.5, 0.5});
}

TEST_CASE("a pattern means the layers that can have an adapter") {
  const Graph all = Good(WithLora(Model(), {.rank = 2, .targets = {"*"}}));
  CHECK_FALSE(all.Find("embed.lora_A.weight"));
  CHECK(all.Find("up_proj.lora_A.weight"));
}

TEST_CASE("what cannot have an adapter is told") {
  const auto error = [](const LoraRules& rules) {
    const auto graph = WithLora(Model(), rules);
    REQUIRE_FALSE(graph.ok());
    return graph.error().message;
  };
  CHECK(
      Contains(error({.targets = {"*_proj.weight", "*.bias"}}),
               "[lora] no layer of \"model\" is called \"*.bias\", by its name "
               "in whole, by the end of it behind a dot or by a pattern, and "
               "has a matrix"));
  CHECK(Contains(error({.targets = {"embed"}}),
                 "[lora] param \"embed.weight\" is operand 0 of gather"));
  CHECK(Contains(error({.targets = {"emb*"}}),
                 "has a matrix that matmuls alone read"));
  CHECK(Contains(error({.rank = 33, .targets = {"*_proj.weight"}}),
                 "[lora] \"up_proj\" has rank 33 beside a weight (64, 32); "
                 "expected 1 to 32"));
  CHECK(Contains(error({.rank = 0, .targets = {"*_proj.weight"}}),
                 "[lora] \"up_proj\" has rank 0 beside a weight (64, 32); "
                 "expected 1 to 32"));
  CHECK(Contains(error({.alpha = HUGE_VAL, .targets = {"*_proj.weight"}}),
                 "[lora] \"up_proj\" has alpha inf; expected a finite number"));
  CHECK(Contains(error({.dropout = -0.5, .targets = {"*_proj.weight"}}),
                 "[lora] dropout is -0.5; expected a number in [0, 1)"));
  CHECK(Contains(error({.dropout = 1, .targets = {"*_proj.weight"}}),
                 "[lora] dropout is 1; expected a number in [0, 1)"));
}

TEST_CASE("a matmul that transposes its first operand is told") {
  GraphBuilder g("turned");
  const Value x = g.Input("x", DType::kF32, {4, 3});
  const Value w = g.Param("w", DType::kF32, {4, 5});
  g.Output("y", MatMul(x, w, /*transpose_a=*/true));
  const Graph graph = Good(g.Finish());
  const auto adapted = WithLora(graph, {.rank = 2});
  REQUIRE_FALSE(adapted.ok());
  CHECK(Contains(adapted.error().message,
                 "[lora] the matmul by \"w\" transposes its first operand"));
  const auto in_blocks = WithQuantizedParams(graph, {{"w", WeightType::kF16}});
  REQUIRE_FALSE(in_blocks.ok());
  CHECK(Contains(in_blocks.error().message, "does not read blocks of F16"));
}

// The bytes of a matrix in blocks, and the numbers that they say.
struct Blocks {
  Numbers bytes, numbers;
};
Blocks RandomBlocks(WeightType type, int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(BytesOf(type, count)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 0x38);
  std::vector<float> numbers(static_cast<size_t>(count));
  Dequantize(type, bytes, numbers);
  Blocks blocks;
  for (const std::byte byte : bytes) {
    blocks.bytes.push_back(static_cast<double>(byte));
  }
  blocks.numbers.assign(numbers.begin(), numbers.end());
  return blocks;
}

TEST_CASE("a graph over blocks is the graph over their numbers") {
  const Graph model =
      Good(WithLora(Model(), {.rank = 2, .targets = {"*_proj.weight"}}));
  const Graph in_blocks = Good(
      WithQuantizedParams(model, {{"embed.weight", WeightType::kQ8_0},
                                  {"up_proj.weight", WeightType::kQ4_1},
                                  {"down_proj.weight", WeightType::kF16}}));
  CHECK(in_blocks.value(*in_blocks.Find("up_proj.weight")).type ==
        TensorType{DType::kU8, {64, 20}});
  // As many parameters, however they lie.
  CHECK(ParameterCount(in_blocks) == ParameterCount(model));
  Tensors floats = Leaves();
  for (const char* layer : {"up_proj", "down_proj"}) {
    const bool up = std::string_view(layer) == "up_proj";
    floats[std::string(layer) + ".lora_A.weight"] = Random(up ? 64 : 128, 5);
    floats[std::string(layer) + ".lora_B.weight"] = Random(up ? 128 : 64, 6);
  }
  Tensors bytes = floats;
  const auto put = [&](const char* name, WeightType type, int64_t count) {
    const Blocks blocks = RandomBlocks(type, count, 11);
    bytes[name] = blocks.bytes;
    floats[name] = blocks.numbers;
  };
  put("embed.weight", WeightType::kQ8_0, 5 * 32);
  put("up_proj.weight", WeightType::kQ4_1, 64 * 32);
  put("down_proj.weight", WeightType::kF16, 64 * 32);

  const TrainOptions options = {.optimizer = Momentum{},
                                .groups = {{.pattern = "*.lora_?.weight"},
                                           {.pattern = "*", .frozen = true}}};
  const Graph of_floats = Good(BuildTrainStep(model, "loss", options));
  const Graph of_bytes = Good(BuildTrainStep(in_blocks, "loss", options));
  const auto step = [](const Graph& graph, Tensors leaves) {
    for (const ValueId id : graph.Leaves(Role::kState)) {
      const ValueInfo& state = graph.value(id);
      leaves[state.name] =
          Numbers(static_cast<size_t>(state.type.shape.num_elements()), 0.0);
    }
    leaves["lr"] = {0.5};
    leaves["step"] = {1};
    const Tensors values = Interpret(graph, leaves);
    CarryOver(graph, values, &leaves);
    leaves["loss"] = values.at("loss");
    return leaves;
  };
  Tensors expected = step(of_floats, floats), actual = step(of_bytes, bytes);
  CHECK(actual["loss"] == expected["loss"]);
  for (const char* param :
       {"up_proj.lora_A.weight", "up_proj.lora_B.weight",
        "down_proj.lora_A.weight", "down_proj.lora_B.weight"}) {
    REQUIRE(actual[param].size() == expected[param].size());
    double difference = 0;
    for (size_t i = 0; i < actual[param].size(); ++i) {
      REQUIRE(std::isfinite(actual[param][i]));  // std::max passes NaN over
      difference =
          std::max(difference, std::abs(actual[param][i] - expected[param][i]));
    }
    CHECK(difference < 1e-12);  // sums are taken in another order
    CHECK(actual[param] != bytes[param]);
  }
  CHECK(actual["up_proj.weight"] == bytes["up_proj.weight"]);
}

TEST_CASE("what cannot lie in blocks is told") {
  const auto error = [](const WeightTypes& types) {
    const auto graph = WithQuantizedParams(Model(), types);
    REQUIRE_FALSE(graph.ok());
    return graph.error().message;
  };
  CHECK(Contains(error({{"nothing", WeightType::kF16}}),
                 "[quantized] \"model\" has no param \"nothing\""));
  CHECK(
      Contains(error({{"up_proj.weight", WeightType::kQ4_K}}),
               "[quantized] param \"up_proj.weight\" is f32(64, 32); a matrix "
               "in Q4_K has rows of 256 numbers or a multiple"));
  CHECK(Contains(error({{"up_proj.bias", WeightType::kF16}}),
                 "[quantized] param \"up_proj.bias\" is f32(64)"));
  const Graph step = Good(BuildTrainStep(Model(), "loss", {}));
  const auto updated =
      WithQuantizedParams(step, {{"up_proj.weight", WeightType::kF16}});
  REQUIRE_FALSE(updated.ok());
  CHECK(Contains(updated.error().message, "which does not read blocks of F16"));
}

}  // namespace
}  // namespace stowage
