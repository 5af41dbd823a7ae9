// Shapes and mistakes of max_pool, avg_pool, their gradients and what is made of
// them. How many windows there are follows PyTorch's documentation of MaxPool2d and
// AvgPool2d.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "ir/windows.h"

namespace stowage {
namespace {

Value F32(GraphBuilder& g, const Shape& shape) {
  return g.Input("x", DType::kF32, shape);
}

std::string PooledShape(const Shape& shape, const PoolWindow& window) {
  GraphBuilder g("shapes");
  const Value y = MaxPool(F32(g, shape), window);
  REQUIRE(y.ok());
  return y.shape().ToString();
}

TEST_CASE("the number of windows is that of the textbook's formula") {
  CHECK(PooledShape({8, 64, 112, 112},
                    {.kernel = {3, 3}, .stride = 2, .padding = 1}) ==
        "(8, 64, 56, 56)");
  CHECK(PooledShape({1, 1, 9}, {.kernel = {4}}) == "(1, 1, 2)");
  CHECK(PooledShape({1, 1, 9}, {.kernel = {4}, .ceil_mode = true}) ==
        "(1, 1, 3)");
  CHECK(PooledShape({1, 1, 9}, {.kernel = {3}, .dilation = {4}}) ==
        "(1, 1, 1)");
  // (5 + 1 + 1 - 2) / 3 rounded up, and 1: but window 2 would start at 5, in the
  // padding behind.
  CHECK(PooledShape(
            {1, 1, 5},
            {.kernel = {2}, .stride = 3, .padding = 1, .ceil_mode = true}) ==
        "(1, 1, 2)");
  CHECK(PooledShape({2, 3, 4, 5, 6},
                    {.kernel = {1, 2, 3}, .padding = {0, 0, 1, 0, 1, 2}}) ==
        "(2, 3, 4, 3, 3)");
}

TEST_CASE("global and adaptive averages have the sizes asked for") {
  GraphBuilder g("shapes");
  const Value x = F32(g, {2, 3, 6, 8});
  CHECK(GlobalAvgPool(x).shape() == Shape{2, 3, 1, 1});
  CHECK(AdaptiveAvgPool(x, {3, 2}).shape() == Shape{2, 3, 3, 2});
  CHECK(AdaptiveAvgPool(x, {1, 8}).shape() == Shape{2, 3, 1, 8});
}

TEST_CASE("taps are the elements of a window that are no padding") {
  const WindowAxis axis = {
      .in = 5, .out = 4, .kernel = 3, .stride = 2, .dilation = 2, .before = 3};
  // Window 0: -3, -1, 1; window 1: -1, 1, 3; 2: 1, 3, 5; 3: 3, 5, 7.
  const Taps expected[] = {{2, 3}, {1, 3}, {0, 2}, {0, 1}};
  for (int64_t o = 0; o < 4; ++o) {
    CHECK(axis.TapsOf(o).first == expected[o].first);
    CHECK(axis.TapsOf(o).end == expected[o].end);
  }
}

struct Mistake {
  Value (*build)(GraphBuilder& g);
  const char* message;
};

TEST_CASE("mistakes are told with the values found") {
  const std::vector<Mistake> mistakes = {
      {[](GraphBuilder& g) {
         return MaxPool(F32(g, {2, 3}), {.kernel = 2});
       },
       "[max_pool] x \"x\" is f32(2, 3); expected rank 3 to 5: examples, "
       "channels, and 1 to 3 spatial axes"},
      {[](GraphBuilder& g) {
         return AvgPool(F32(g, {2, 3, 4, 5}), {.kernel = {2, 2, 2}});
       },
       "[avg_pool] kernel has 3 entries; expected 2, one for each spatial "
       "axis"},
      {[](GraphBuilder& g) {
         return MaxPool(F32(g, {2, 3, 4, 5}), {.kernel = 2, .stride = {1, 0}});
       },
       "[max_pool] stride is 0 along axis 3; expected 1 to 2147483647"},
      {[](GraphBuilder& g) {
         return MaxPool(F32(g, {2, 3, 4}), {.kernel = {2}, .padding = -1});
       },
       "[max_pool] pad_before is -1 along axis 2; expected 0 to 2147483647"},
      {[](GraphBuilder& g) {
         return MaxPool(F32(g, {2, 3, 4}), {.kernel = {int64_t{1} << 40}});
       },
       "[max_pool] kernel is 1099511627776 along axis 2; expected 1 to "
       "2147483647"},
      {[](GraphBuilder& g) {
         return MaxPool(F32(g, {2, 3, 9, 5}), {.kernel = {2, 4},
                                               .stride = 1,
                                               .padding = {0, 1},
                                               .dilation = {1, 3}});
       },
       "[max_pool] kernel 4 with dilation 3 reaches over 10 along axis 3 of 5 "
       "elements, padded by 1 and 1; expected at most 7"},
      {[](GraphBuilder& g) {
         return AvgPool(F32(g, {2, 3, 9}), {.kernel = {2}, .padding = {0, 2}});
       },
       "[avg_pool] a window that reaches over 2 may lie in the padding alone "
       "along axis 2 of 9 elements, padded by 0 and 2; expected less padding "
       "on either side"},
      {[](GraphBuilder& g) {
         return MaxPool(
             F32(g, {2, 3, 1}),
             {.kernel = 2, .stride = 1, .padding = 2, .dilation = {3}});
       },
       "[max_pool] a window with dilation 3 may lie in the padding alone along "
       "axis 2 of 1 elements, padded by 2 and 2; expected a dilation of at "
       "most 1"},
      {[](GraphBuilder& g) {
         return AvgPool(F32(g, {2, 3, 9}), {.kernel = {2}, .dilation = {2}});
       },
       "[avg_pool] dilation is 2; expected 1: only max_pool dilates"},
      {[](GraphBuilder& g) {
         return GlobalAvgPool(F32(g, {2, 3}));
       },
       "[global_avg_pool] x \"x\" is f32(2, 3); expected rank at least 3: "
       "examples, channels, spatial axes"},
      {[](GraphBuilder& g) {
         return AdaptiveAvgPool(F32(g, {2, 3, 7, 6}), {7, 4});
       },
       "[adaptive_avg_pool] axis 3 cannot be cut into 4 equal windows: x \"x\" "
       "is f32(2, 3, 7, 6); expected a divisor of 6"},
      {[](GraphBuilder& g) {
         return AdaptiveAvgPool(F32(g, {2, 3, 7, 6}), {1});
       },
       "[adaptive_avg_pool] x \"x\" is f32(2, 3, 7, 6) and there are 1 sizes; "
       "expected one for each spatial axis, of which there is at least one"},
      {[](GraphBuilder& g) {
         const Value x = F32(g, {2, 3, 8});
         MaxPool(x, {.kernel = {2}});
         return Apply(OpKind::kMaxPoolGrad, {x, x},
                      g.graph().nodes().back().attrs);
       },
       "[max_pool_grad] dy \"x\" is f32(2, 3, 8); expected f32(2, 3, 4), since "
       "x \"x\" is f32(2, 3, 8)"},
      {[](GraphBuilder& g) {
         const Value x = F32(g, {2, 3, 8});
         AvgPool(x, {.kernel = {2}});
         Attrs attrs = {{"shape", Axes{2, 3, 8}}};
         for (const auto& [name, value] :
              g.graph().nodes().back().attrs.entries()) {
           attrs.Set(name, value);
         }
         return Apply(OpKind::kAvgPoolGrad, {x}, attrs);
       },
       "[avg_pool_grad] dy \"x\" is f32(2, 3, 8); expected f32(2, 3, 4), since "
       "shape is (2, 3, 8)"},
  };
  for (const Mistake& mistake : mistakes) {
    INFO(mistake.message);
    GraphBuilder g("mistakes");
    mistake.build(g);
    const Result<Graph> graph = g.Finish();
    REQUIRE_FALSE(graph.ok());
    const std::string& message = graph.error().message;
    CHECK(message.substr(0, message.find(" (at ")) == mistake.message);
  }
}

}  // namespace
}  // namespace stowage
