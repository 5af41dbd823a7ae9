#include "nn/layers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/backward.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/image_nets.h"
#include "runtime/values.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

std::string ErrorOf(GraphBuilder& g) {
  const auto graph = g.Finish();
  REQUIRE_FALSE(graph.ok());
  return graph.error().message;
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST_CASE("a linear layer names its params and its result") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF64, {2, 3, 5});
  const Value y =
      Linear(x, "fc", 7, {.bias = true, .init = Init::Uniform(0.5)});
  g.Output("fc", y);
  const auto graph = g.Finish();
  REQUIRE(graph.ok());
  CHECK(graph->value(*graph->Find("fc")).type ==
        TensorType{DType::kF64, {2, 3, 7}});
  const ValueInfo& weight = graph->value(*graph->Find("fc.weight"));
  CHECK(weight.type == TensorType{DType::kF64, {5, 7}});
  CHECK(weight.init == Init::Uniform(0.5));
  const ValueInfo& bias = graph->value(*graph->Find("fc.bias"));
  CHECK(bias.type == TensorType{DType::kF64, {7}});
  CHECK(bias.init == Init::Zeros());
}

TEST_CASE("a linear layer without a bias has one param") {
  GraphBuilder g("test");
  Linear(g.Input("x", DType::kF32, {2, 3}), "fc", 4, {.bias = false});
  const auto graph = g.Finish();
  REQUIRE(graph.ok());
  CHECK(graph->Leaves(Role::kParam).size() == 1);
}

TEST_CASE("a norm starts as the identity after normalizing") {
  GraphBuilder g("test");
  LayerNorm(g.Input("x", DType::kF32, {2, 3}), "ln");
  const auto graph = g.Finish();
  REQUIRE(graph.ok());
  CHECK(graph->value(*graph->Find("ln.weight")).init == Init::Ones());
  CHECK(graph->value(*graph->Find("ln.bias")).init == Init::Zeros());
}

// One step of a batch norm over x (2, 3, 2), from given running statistics.
Tensors OfBatchNorm(bool training) {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF64, {2, 3, 2});
  g.Output("y", BatchNorm(x, "bn", {.training = training, .momentum = 0.25}));
  const auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  CHECK(graph->value(*graph->Find("bn.weight")).init == Init::Ones());
  CHECK(graph->value(*graph->Find("bn.running_mean")).init == Init::Zeros());
  CHECK(graph->value(*graph->Find("bn.running_var")).init == Init::Ones());
  Tensors leaves = {{"x", {1, 2, 0, 0, 5, 7, 3, 6, 2, 2, 5, 7}},
                    {"bn.weight", {2, 1, 1}},
                    {"bn.bias", {0, 0.5, 0}},
                    {"bn.running_mean", {1, -1, 6}},
                    {"bn.running_var", {4, 1, 0.25}}};
  Tensors values = Interpret(*graph, leaves);
  CarryOver(*graph, values, &leaves);
  leaves["y"] = values.at("y");
  return leaves;
}

void CheckNear(const std::vector<double>& actual,
               const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  }
}

TEST_CASE(
    "a batch norm follows its batches, and evaluates by what it followed") {
  // The channels are (1, 2, 3, 6), (0, 0, 2, 2) and (5, 7, 5, 7): means 3, 1 and 6,
  // variances 14/4, 1 and 1, and by one less of the count 14/3, 4/3 and 4/3.
  const Tensors trained = OfBatchNorm(/*training=*/true);
  const double s = std::sqrt(3.5);
  CheckNear(trained.at("y"),
            {-4 / s, -2 / s, -0.5, -0.5, -1, 1, 0, 6 / s, 1.5, 1.5, -1, 1});
  CheckNear(trained.at("bn.running_mean"), {1.5, -0.5, 6});
  CheckNear(trained.at("bn.running_var"),
            {4 + 0.25 * (14.0 / 3 - 4), 1 + 0.25 / 3,
             0.25 + 0.25 * (4.0 / 3 - 0.25)});
  const Tensors evaluated = OfBatchNorm(/*training=*/false);
  CheckNear(evaluated.at("y"), {0, 1, 1.5, 1.5, -2, 2, 2, 5, 3.5, 3.5, -2, 2});
  CheckNear(evaluated.at("bn.running_mean"), {1, -1, 6});
}

TEST_CASE("groups of heads share the keys and values of one projection") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF32, {2, 5, 12});
  const Value y =
      MultiHeadAttention(x, "attn", {.heads = 6, .groups = 2, .causal = true});
  CHECK(y.shape() == Shape{2, 5, 12});
  const auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto shape = [&](const char* name) {
    return graph->value(*graph->Find(name)).type.shape;
  };
  CHECK(shape("attn.in_proj.weight") == Shape{12, 12 + 2 * 2 * 2});
  CHECK(shape("attn.in_proj.bias") == Shape{20});
  CHECK(shape("attn.out_proj.weight") == Shape{12, 12});
  CHECK(shape("attn.attention") == Shape{2, 5, 6, 2});
  const auto error = [](const MultiHeadAttentionOptions& options) {
    GraphBuilder wrong("test");
    MultiHeadAttention(wrong.Input("x", DType::kF32, {2, 5, 12}), "a", options);
    return ErrorOf(wrong);
  };
  CHECK(Contains(error({.heads = 5}),
                 "[attention] \"a\" has 5 heads over a width of 12; the width "
                 "must be a positive multiple of the heads"));
  CHECK(Contains(error({.heads = 6, .groups = 4}),
                 "[attention] \"a\" has 6 heads in 4 groups; the heads must be "
                 "a positive multiple of the groups"));
}

TEST_CASE("multi-head attention takes a bias, which learns if it is a param") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF32, {2, 5, 12});
  const Value bias = g.Param("positions", DType::kF32, {1, 6, 5, 5});
  const Value y = MultiHeadAttention(x, "attn", {.heads = 6, .bias = bias});
  g.Output("loss", ReduceSum(y));
  const auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto backward = BuildBackward(*graph, "loss");
  REQUIRE_MESSAGE(backward.ok(), backward.error().message);
  const auto gradient = backward->Find("grad:positions");
  REQUIRE(gradient.has_value());
  CHECK(backward->value(*gradient).type.shape == Shape{1, 6, 5, 5});
  GraphBuilder wrong("test");
  MultiHeadAttention(
      wrong.Input("x", DType::kF32, {2, 5, 12}), "a",
      {.heads = 6, .bias = wrong.Input("b", DType::kF32, {5, 5})});
  CHECK(Contains(ErrorOf(wrong),
                 "[attention] bias \"b\" is f32(5, 5); expected (B, H, T, S), "
                 "(2, 6, 5, 5) of"));
}

TEST_CASE(
    "a convolution has PyTorch's layout, and its bias a number a channel") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF32, {2, 6, 9, 8});
  const Value y = Conv(
      x, "conv", 4, {.kernel = {3, 5}, .stride = 2, .groups = 2, .bias = true});
  CHECK(y.shape() == Shape{2, 4, 4, 2});
  const auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const ValueInfo& weight = graph->value(*graph->Find("conv.weight"));
  CHECK(weight.type.shape == Shape{4, 3, 3, 5});
  // 2 filters a group of 15 positions.
  CHECK(weight.init.scale == doctest::Approx(std::sqrt(2.0 / 30)));
  CHECK(graph->value(*graph->Find("conv.bias")).type.shape == Shape{4});
  const auto error = [](int64_t channels, const ConvLayerOptions& options) {
    GraphBuilder wrong("test");
    Conv(wrong.Input("x", DType::kF32, {2, 6, 9, 8}), "c", channels, options);
    return ErrorOf(wrong);
  };
  CHECK(Contains(error(4, {.groups = 4}),
                 "[conv] \"c\" makes 4 channels of 6 in 4 groups; both must be "
                 "whole multiples of the groups"));
  CHECK(
      Contains(error(4, {.kernel = {1, 2, 3}}),
               "[conv] the kernel of \"c\" has 3 sizes; its input \"x\" has 2 "
               "spatial dimensions"));
  CHECK(Contains(error(4, {.kernel = 10}), "[conv] "));
}

TEST_CASE("an up-convolution has PyTorch's layout and starts by its inputs") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF32, {2, 6, 9, 8});
  const Value y = ConvTranspose(x, "up", 4, {.bias = true});
  CHECK(y.shape() == Shape{2, 4, 18, 16});
  const auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const ValueInfo& weight = graph->value(*graph->Find("up.weight"));
  CHECK(weight.type.shape == Shape{6, 4, 2, 2});
  // Of 6 channels one position adds to one of the result.
  CHECK(weight.init.scale == doctest::Approx(std::sqrt(2.0 / 6)));
  CHECK(graph->value(*graph->Find("up.bias")).type.shape == Shape{4});
  const auto error = [](int64_t channels,
                        const ConvTransposeLayerOptions& options) {
    GraphBuilder wrong("test");
    ConvTranspose(wrong.Input("x", DType::kF32, {2, 6, 9, 8}), "c", channels,
                  options);
    return ErrorOf(wrong);
  };
  CHECK(Contains(error(0, {}),
                 "[conv_transpose] \"c\" makes 0 channels; expected at least "
                 "1"));
  CHECK(Contains(error(4, {.kernel = {1, 2, 3}}),
                 "[conv_transpose] the kernel of \"c\" has 3 sizes; its input "
                 "\"x\" has 2 spatial dimensions"));
}

TEST_CASE("an embedding gives a row for every index, and its table") {
  GraphBuilder g("test");
  const Value indices = g.Input("i", DType::kI64, {4, 2});
  const EmbeddingResults wte = Embedding(indices, "wte", 9, 3, DType::kF32);
  CHECK(wte.rows.shape() == Shape{4, 2, 3});
  CHECK(wte.table.shape() == Shape{9, 3});
  CHECK(g.Find("wte").has_value());
}

TEST_CASE("a block keeps the shape of its input") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF32, {2, 4, 6});
  CHECK(TransformerBlock(x, "h.0", {.heads = 3}).shape() == Shape{2, 4, 6});
  CHECK(g.Find("h.0").has_value());
  CHECK(g.Find("h.0.mlp.c_proj.weight").has_value());
}

TEST_CASE("a layer of the wrong input says which, and the user's line") {
  {
    GraphBuilder g("test");
    Linear(g.Input("k", DType::kI32, {2, 3}), "fc", 4);
    const std::string message = ErrorOf(g);
    CHECK(Contains(message, "[linear]"));
    CHECK(Contains(message, "\"k\", is i32(2, 3)"));
    CHECK(Contains(message, "layers_test.cc"));
  }
  {
    GraphBuilder g("test");
    LayerNorm(g.Input("s", DType::kF32, {}), "ln");
    CHECK(Contains(ErrorOf(g), "[layer_norm] the input of \"ln\", \"s\""));
  }
  {
    GraphBuilder g("test");
    CausalSelfAttention(g.Input("x", DType::kF32, {4, 6}), "attn",
                        {.heads = 2});
    CHECK(Contains(ErrorOf(g), "rank 3"));
  }
  {
    GraphBuilder g("test");
    CausalSelfAttention(g.Input("x", DType::kF32, {1, 2, 4, 6}), "attn",
                        {.heads = 2});
    CHECK(Contains(ErrorOf(g), "expected (batch, time, width)"));
  }
  {
    GraphBuilder g("test");
    CausalSelfAttention(g.Input("x", DType::kF32, {1, 4, 6}), "attn",
                        {.heads = 4});
    CHECK(Contains(ErrorOf(g), "4 heads over a width of 6"));
  }
}

TEST_CASE("two layers of one name are refused") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF32, {2, 3});
  Linear(Linear(x, "fc", 3), "fc", 3);
  CHECK(Contains(ErrorOf(g), "\"fc.weight\" is taken"));
}

TEST_CASE("a block whose residual's name is taken is refused") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF32, {2, 3, 8});
  g.Input("b.attn.residual", DType::kF32, {1});
  CHECK_FALSE(TransformerBlock(x, "b", {.heads = 2}).ok());
  CHECK(Contains(ErrorOf(g), "\"b.attn.residual\""));
}

TEST_CASE("layers pass an inert value on and keep the first error") {
  GraphBuilder g("test");
  const Value bad = Linear(g.Input("k", DType::kI32, {2, 3}), "first", 4);
  REQUIRE_FALSE(bad.ok());
  CHECK_FALSE(Linear(bad, "second", 4).ok());
  CHECK_FALSE(LayerNorm(bad, "ln").ok());
  CHECK_FALSE(Embedding(bad, "wte", 3, 4, DType::kF32).rows.ok());
  CHECK_FALSE(TransformerBlock(bad, "h", {.heads = 2}).ok());
  CHECK_FALSE(Dropouts().Apply(bad).ok());
  CHECK(Contains(ErrorOf(g), "\"first\""));
}

struct Moments {
  double deviation = 0;
  double largest = 0;
};

Moments MomentsOf(const Init& init) {
  const ValueInfo value{.name = "w",
                        .type = {DType::kF64, {300, 400}},
                        .role = Role::kParam,
                        .init = init};
  std::vector<std::byte> bytes;
  MakeInitialValues(value, 1, [&](Bytes, std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  });
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  Moments moments;
  for (const double v : values) {
    moments.deviation += v * v;
    moments.largest = std::max(moments.largest, std::abs(v));
  }
  moments.deviation =
      std::sqrt(moments.deviation / static_cast<double>(values.size()));
  return moments;
}

TEST_CASE("a weight's deviation is what its fans ask for") {
  // sqrt(2 / 300), sqrt(2 / 700), and a uniform's bound is sqrt(3) deviations.
  const double kaiming = 0.081650;
  const double xavier = 0.053452;
  const double within = 0.01;  // of 120,000 elements; five errors are 0.0102
  CHECK(MomentsOf(KaimingNormal(300)).deviation ==
        doctest::Approx(kaiming).epsilon(within));
  CHECK(MomentsOf(KaimingUniform(300)).deviation ==
        doctest::Approx(kaiming).epsilon(within));
  CHECK(MomentsOf(XavierNormal(300, 400)).deviation ==
        doctest::Approx(xavier).epsilon(within));
  CHECK(MomentsOf(XavierUniform(300, 400)).deviation ==
        doctest::Approx(xavier).epsilon(within));
  CHECK(MomentsOf(KaimingUniform(300)).largest ==
        doctest::Approx(0.141421).epsilon(1e-3));
  CHECK(MomentsOf(XavierUniform(300, 400)).largest ==
        doctest::Approx(0.092582).epsilon(1e-3));
  CHECK(MomentsOf(KaimingNormal(300, 1)).deviation ==
        doctest::Approx(kaiming / std::sqrt(2)).epsilon(within));
  CHECK(MomentsOf(XavierNormal(300, 400, 2)).deviation ==
        doctest::Approx(2 * xavier).epsilon(within));
}

}  // namespace
}  // namespace stowage
