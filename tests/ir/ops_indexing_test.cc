// Values and mistakes of what works along an axis, counts, masks and draws numbers.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/ir/op_rows.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

using Numbers = std::vector<double>;

Value F32(GraphBuilder& g, const Shape& shape) {
  return g.Input("x", DType::kF32, shape);
}
Value I32(GraphBuilder& g, const Shape& shape) {
  return g.Input("i", DType::kI32, shape);
}

// f of x, with the indices i.
template <typename F>
Numbers Of(const Shape& shape, const Numbers& x, const Shape& i_shape,
           const Numbers& i, const F& f) {
  GraphBuilder g("values");
  const Value operand = F32(g, shape);
  g.Output("y", f(operand, I32(g, i_shape)));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  return Interpret(*graph, {{"x", x}, {"i", i}})["y"];
}

TEST_CASE("cumulative sums are those of numpy and of ONNX") {
  const auto sums = [](int64_t axis, bool exclusive, bool reverse) {
    return Of({2, 3}, {1, 2, 3, 10, 20, 30}, {}, {0}, [=](Value x, Value) {
      return CumSum(x, axis, exclusive, reverse);
    });
  };
  CHECK(sums(1, false, false) == Numbers{1, 3, 6, 10, 30, 60});
  CHECK(sums(1, true, false) == Numbers{0, 1, 3, 0, 10, 30});
  CHECK(sums(-1, false, true) == Numbers{6, 5, 3, 60, 50, 30});
  CHECK(sums(-1, true, true) == Numbers{5, 3, 0, 50, 30, 0});
  CHECK(sums(0, false, false) == Numbers{1, 2, 3, 11, 22, 33});
}

// torch.gather and torch.scatter_add.
TEST_CASE("elements are taken and put along an axis") {
  const Numbers x = {1, 2, 3, 4, 5, 6};
  CHECK(Of({2, 3}, x, {2, 2}, {2, 0, 1, 1}, [](Value v, Value i) {
          return TakeAlongAxis(v, i, 1);
        }) == Numbers{3, 1, 5, 5});
  CHECK(Of({2, 3}, x, {1, 3}, {1, 0, 1}, [](Value v, Value i) {
          return TakeAlongAxis(v, i, 0);
        }) == Numbers{4, 2, 6});
  CHECK(Of({2, 3}, x, {2, 2}, {2, 2, 1, 0}, [](Value v, Value i) {
          return PutAdd(v, i, MulScalar(Cast(AddScalar(i, 1), DType::kF32), 10),
                        1);
        }) == Numbers{1, 2, 63, 14, 25, 6});
}

TEST_CASE("the largest come first, and of equals the first") {
  const Numbers x = {3, 1, 3, 2, 1};
  const auto top = [&](int64_t k, bool descending, bool values) {
    return Of({5}, x, {}, {0}, [=](Value v, Value) {
      const TopKResults results = TopK(v, k, descending);
      return values ? results.values : results.indices;
    });
  };
  CHECK(top(3, true, true) == Numbers{3, 3, 2});
  CHECK(top(3, true, false) == Numbers{0, 2, 3});
  CHECK(top(5, false, true) == Numbers{1, 1, 2, 3, 3});
  CHECK(top(5, false, false) == Numbers{1, 4, 3, 0, 2});
}

TEST_CASE("masks and tiles are those of numpy") {
  const Numbers x = {1, 2, 3, 4, 5, 6};
  const auto of = [&](auto f) {
    return Of({2, 3}, x, {2}, {2, 3},
              [=](Value v, Value i) { return f(v, i); });
  };
  CHECK(of([](Value v, Value) { return Tril(v); }) ==
        Numbers{1, 0, 0, 4, 5, 0});
  CHECK(of([](Value v, Value) { return Tril(v, 1); }) ==
        Numbers{1, 2, 0, 4, 5, 6});
  CHECK(of([](Value v, Value) { return Triu(v); }) ==
        Numbers{1, 2, 3, 0, 5, 6});
  CHECK(of([](Value v, Value) { return Triu(v, -1); }) == x);
  CHECK(of([](Value v, Value) {
          return Tile(v, {2, 1});
        }) == Numbers{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
  CHECK(of([](Value v, Value) {
          return Tile(v, {1, 2});
        }) == Numbers{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  CHECK(of([](Value, Value i) { return OneHot(i, 3); }) ==
        Numbers{0, 0, 1, 0, 0, 0});
}

TEST_CASE("random numbers are of their distributions, and of their ids") {
  constexpr int64_t kCount = 40000;
  GraphBuilder g("random");
  const Value seed = g.Input("seed", DType::kI64, {});
  const Value step = g.Input("step", DType::kI64, {});
  g.Output("uniform", RandomUniform(seed, step, {kCount}, DType::kF32, 7));
  g.Output("normal", RandomNormal(seed, step, {kCount}, DType::kF32, 7));
  g.Output("other", RandomUniform(seed, step, {kCount}, DType::kF32, 8));
  const Graph graph = *g.Finish();
  Tensors y = Interpret(graph, {{"seed", {5}}, {"step", {9}}});
  const auto moment = [&](const Numbers& x, double center, int power) {
    double sum = 0;
    for (const double each : x) sum += std::pow(each - center, power);
    return sum / static_cast<double>(x.size());
  };
  // Six standard errors.
  const double wide = 6 / std::sqrt(static_cast<double>(kCount));
  CHECK(std::abs(moment(y["uniform"], 0, 1) - 0.5) < wide / std::sqrt(12.0));
  CHECK(std::abs(moment(y["uniform"], 0.5, 2) - 1 / 12.0) < wide * 0.075);
  CHECK(std::abs(moment(y["normal"], 0, 1)) < wide);
  CHECK(std::abs(moment(y["normal"], 0, 2) - 1) < wide * std::sqrt(2.0));
  CHECK(std::abs(moment(y["normal"], 0, 4) - 3) < wide * std::sqrt(96.0));
  const auto [low, high] =
      std::minmax_element(y["uniform"].begin(), y["uniform"].end());
  CHECK(*low >= 0);
  CHECK(*high < 1);
  CHECK(y["uniform"] != y["other"]);
  CHECK(Interpret(graph, {{"seed", {5}}, {"step", {10}}})["uniform"] !=
        y["uniform"]);
  CHECK(Interpret(graph, {{"seed", {6}}, {"step", {9}}})["uniform"] !=
        y["uniform"]);
}

TEST_CASE("mistakes along axes are told with the values found") {
  CheckRows({
      {[](GraphBuilder& g) {
         CumSum(F32(g, {2, 3}), 2);
       },
       "[cumsum] axis 2 is out of range: x \"x\" is f32(2, 3); expected 0 to "
       "1"},
      {[](GraphBuilder& g) { CumSum(g.Input("b", DType::kBool, {2}), 0); },
       "[cumsum] x \"b\" is bool(2); expected any element type but bool"},
      {[](GraphBuilder& g) {
         TakeAlongAxis(F32(g, {2, 3}), I32(g, {3, 3}), 1);
       },
       "[take_along_axis] shapes differ beside axis 1: x \"x\" is f32(2, 3), "
       "indices \"i\" is i32(3, 3); expected equal dimensions along all other "
       "axes"},
      {[](GraphBuilder& g) {
         TakeAlongAxis(F32(g, {2, 3}), g.Input("f", DType::kF32, {2, 3}), 1);
       },
       "[take_along_axis] indices \"f\" is f32(2, 3); expected i32 or i64"},
      {[](GraphBuilder& g) {
         PutAdd(F32(g, {2, 3}), I32(g, {2, 1}),
                g.Input("u", DType::kF32, {2, 2}), 1);
       },
       "[put_add] updates \"u\" is f32(2, 2); expected f32(2, 1), since base "
       "\"x\" is f32(2, 3) and indices \"i\" is i32(2, 1)"},
      {[](GraphBuilder& g) {
         TopK(F32(g, {2, 3}), 4);
       },
       "[top_k] k is 4: x \"x\" is f32(2, 3); expected 1 to 3"},
      {[](GraphBuilder& g) { Sort(F32(g, {})); },
       "[top_k] x \"x\" is f32(); expected rank at least 1"},
      {[](GraphBuilder& g) { Iota(g, DType::kI32, 0, 1, 0); },
       "[iota] n is 0; expected at least 1"},
      {[](GraphBuilder& g) { Iota(g, DType::kI32, 0.5, 1, 3); },
       "[iota] start is 0.5; expected a number that i32 holds"},
      {[](GraphBuilder& g) { Iota(g, DType::kI32, 0, 0.5, 3); },
       "[iota] step is 0.5; expected a whole number that i64 holds"},
      {[](GraphBuilder& g) { Iota(g, DType::kU8, 0, 1, 300); },
       "[iota] the last of 300 numbers from 0 in steps of 1 is 299; expected a "
       "number that u8 holds"},
      {[](GraphBuilder& g) {
         RandomUniform(g.Input("seed", DType::kI64, {}),
                       g.Input("step", DType::kI64, {}), {2}, DType::kI32, 0);
       },
       "[random_uniform] dtype is i32; expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         RandomNormal(g.Input("seed", DType::kI32, {}),
                      g.Input("step", DType::kI64, {}), {2}, DType::kF32, 0);
       },
       "[random_normal] seed \"seed\" is i32(); expected i64(), a scalar"},
      {[](GraphBuilder& g) { OneHot(F32(g, {2}), 3); },
       "[one_hot] indices \"x\" is f32(2); expected i32 or i64"},
      {[](GraphBuilder& g) { Tril(F32(g, {3})); },
       "[tril] x \"x\" is f32(3); expected rank at least 2"},
      {[](GraphBuilder& g) {
         Tile(F32(g, {2, 3}), {2});
       },
       "[tile] there are 1 repeats: x \"x\" is f32(2, 3); expected 2, one for "
       "each axis"},
      {[](GraphBuilder& g) {
         Tile(F32(g, {2, 3}), {2, 0});
       },
       "[tile] repeats is 0 along axis 1; expected at least 1"},
      {[](GraphBuilder& g) {
         Tile(F32(g, {1, 2, 1, 2, 1}), {2, 2, 2, 2, 2});
       },
       "[tile] takes 10 axes on the way, with one more for each that is "
       "repeated: x \"x\" is f32(1, 2, 1, 2, 1); expected at most 8"},
  });
}

}  // namespace
}  // namespace stowage
