// The oracle itself, against numbers worked out by hand.

#include "tests/support/interpret.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage {
namespace {

using Numbers = std::vector<double>;
constexpr DType kF32 = DType::kF32;

Graph Finish(GraphBuilder& g) {
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

TEST_CASE("products, views and broadcasts are those of matrices on paper") {
  GraphBuilder g("paper");
  const Value a = g.Input("a", kF32, {2, 3});
  const Value b = g.Input("b", kF32, {2, 3});
  g.Output("product", MatMul(a, b, false, true));
  g.Output("same", MatMul(a, Transpose(b)));
  g.Output("steps", Slice(a, 1, 0, 3, 2));
  g.Output("rows", Add(a, Slice(b, 0, 1, 2)));
  g.Output("joined", Concat(Split(a, 1, {1, 2}), 1));
  g.Output("means", ReduceMean(a, {0}));
  const Tensors y = Interpret(
      Finish(g), {{"a", {1, 2, 3, 4, 5, 6}}, {"b", {1, 0, -1, 2, 1, 0}}});
  CHECK(y.at("product") == Numbers{-2, 4, -2, 13});
  CHECK(y.at("same") == y.at("product"));
  CHECK(y.at("steps") == Numbers{1, 3, 4, 6});
  CHECK(y.at("rows") == Numbers{3, 3, 3, 6, 6, 6});
  CHECK(y.at("joined") == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(y.at("means") == Numbers{2.5, 3.5, 4.5});
}

TEST_CASE("rows are looked up, and added up where indices repeat") {
  GraphBuilder g("rows");
  const Value table = g.Input("table", kF32, {3, 2});
  const Value indices = g.Input("indices", DType::kI32, {3});
  const Value rows = Gather(table, indices);
  g.Output("rows", rows);
  g.Output("sums", ScatterAdd(table, indices, rows));
  const Tensors y = Interpret(
      Finish(g), {{"table", {1, 2, 3, 4, 5, 6}}, {"indices", {2, 0, 2}}});
  CHECK(y.at("rows") == Numbers{5, 6, 1, 2, 5, 6});
  CHECK(y.at("sums") == Numbers{2, 4, 3, 4, 15, 18});
}

TEST_CASE("a row of equal logits has the entropy of a fair choice") {
  GraphBuilder g("entropy");
  const Value logits = g.Input("logits", kF32, {2, 4});
  const Value labels = g.Input("labels", DType::kI64, {2});
  g.Output("loss", CrossEntropy(logits, labels));
  const Tensors y = Interpret(
      Finish(g),
      {{"logits", {3, 3, 3, 3, 0, 0, 0, std::log(5.0)}}, {"labels", {1, 3}}});
  // -log(1/4) and -log(5/8), averaged
  CHECK(y.at("loss")[0] ==
        doctest::Approx((std::log(4.0) + std::log(1.6)) / 2));
}

TEST_CASE("the first query sees one key, the second the mean of equal ones") {
  GraphBuilder g("attention");
  const Shape shape = {1, 2, 1, 2};
  g.Output("o",
           CausalAttention(g.Input("q", kF32, shape), g.Input("k", kF32, shape),
                           g.Input("v", kF32, shape)));
  const Tensors y = Interpret(
      Finish(g),
      {{"q", {1, 2, 3, 4}}, {"k", {5, 6, 5, 6}}, {"v", {2, 4, 6, 10}}});
  const Numbers expected = {2, 4, 4, 7};
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(y.at("o")[i] == doctest::Approx(expected[i]));
  }
}

// The known answer of Philox4x32-10 for a zero counter and key, published with
// the generator (kat_vectors of Random123): 6627e8d5 e169c58d bc57ac4c
// 9b00dbd8.
TEST_CASE("dropout draws the published numbers of Philox") {
  GraphBuilder g("dropout");
  const Value x = g.Input("x", kF32, {4});
  const Value seed = g.Input("seed", DType::kI64, {});
  const Value step = g.Input("step", DType::kI64, {});
  // As fractions of 2^32: 0.399, 0.881, 0.736, 0.605.
  g.Output("y0", Dropout(x, seed, step, 0.5, 0));
  g.Output("y1", Dropout(x, seed, step, 0.75, 0));
  const Tensors y =
      Interpret(Finish(g), {{"x", {1, 2, 3, 4}}, {"seed", {0}}, {"step", {0}}});
  CHECK(y.at("y0") == Numbers{0, 4, 6, 8});
  CHECK(y.at("y1") == Numbers{0, 8, 0, 0});
}

TEST_CASE("what an update writes is carried over to the next step") {
  GraphBuilder g("update");
  const Value w = g.Param("w", kF32, {2});
  const MomentumResults updated =
      MomentumUpdate(w, g.State("u", kF32, {2}), g.Input("g", kF32, {2}),
                     g.Input("lr", kF32, {}), Value(), 0.5, 0);
  g.Output("w2", updated.w);
  const Graph graph = Finish(g);
  Tensors leaves = {{"w", {1, 2}}, {"u", {4, 8}}, {"g", {1, 1}}, {"lr", {0.5}}};
  const Tensors y = Interpret(graph, leaves);
  CHECK(y.at("w") == Numbers{1, 2});
  CHECK(y.at("w2") == Numbers{-0.5, -0.5});
  CarryOver(graph, y, &leaves);
  CHECK(leaves.at("w") == Numbers{-0.5, -0.5});
  CHECK(leaves.at("u") == Numbers{3, 5});
}

TEST_CASE("16-bit values are rounded to their types where that is asked for") {
  GraphBuilder g("rounding");
  const Value a = g.Input("a", DType::kBF16, {5});
  const Value b = g.Input("b", DType::kF16, {4});
  g.Output("sum", AddScalar(a, 1));
  g.Output("wide", Cast(a, kF32));
  g.Output("half", Neg(b));
  g.Output("third", Fill(g, 1.0 / 3, DType::kBF16, {}));
  g.Output("f32", Fill(g, 1.0 / 3, kF32, {}));
  const Graph graph = Finish(g);
  // 257 lies between the bf16 numbers 256 and 258, 259 between 258 and 260;
  // 2049 between the f16 numbers 2048 and 2050.
  const Tensors leaves = {{"a", {257, 259, 0x1p-133, 0x1.8p-134, 0x1.FFp127}},
                          {"b", {2049, 2051, 65520, 0x1p-25}}};
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensors y = Interpret(graph, leaves, Rounding::kTo16Bits);
  CHECK(y.at("wide") == Numbers{256, 260, 0x1p-133, 0x1p-133, infinity});
  // 256 + 1 rounds to even again.
  CHECK(y.at("sum") == Numbers{256, 260, 1, 1, infinity});
  CHECK(y.at("half") == Numbers{-2048, -2052, -infinity, 0});
  CHECK(y.at("third") == Numbers{171.0 / 512});
  CHECK(y.at("f32") == Numbers{1.0 / 3});
  CHECK(Interpret(graph, leaves).at("wide") == leaves.at("a"));
}

TEST_CASE("a split weight is put together, moved, and taken apart") {
  // With both betas 0, a step is lr in the direction of -g.
  GraphBuilder g("split");
  const Value w = g.Param("w", DType::kBF16, {3});
  const AdamWSplitResults results = AdamWSplitUpdate(
      w, g.State("delta", DType::kI16, {3}), g.State("m", kF32, {3}),
      g.State("v", kF32, {3}), g.Input("g", DType::kBF16, {3}),
      g.Input("lr", kF32, {}), g.Input("step", DType::kI64, {}), Value(), 0, 0,
      1e-30, 0);
  g.Output("new delta", results.delta);
  g.Output("new w", results.w);
  // Each step is lr = 2^-9, a quarter of a bf16 bit of 1, 2^14 of its f32 bits.
  const Tensors y = Interpret(Finish(g), {{"w", {1, 1, -1}},
                                          {"delta", {5, 20000, 7}},
                                          {"m", {0, 0, 0}},
                                          {"v", {0, 0, 0}},
                                          {"g", {-1, -1, 1}},
                                          {"lr", {0x1p-9}},
                                          {"step", {1}}});
  CHECK(y.at("new w") == Numbers{1, 1 + 0x1p-7, -1});
  CHECK(y.at("new delta") ==
        Numbers{5 + 16384, 20000 + 16384 - 65536, 7 + 16384});
}

}  // namespace
}  // namespace stowage
