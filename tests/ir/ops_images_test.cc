// Padding, resizing, rearranging and pooling of images: shapes, values and errors. The
// numbers of pooling windows follow PyTorch's documentation of MaxPool2d and AvgPool2d.

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/windows.h"
#include "tests/ir/op_rows.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

using Numbers = std::vector<double>;

Value F32(GraphBuilder& g, const Shape& shape) {
  return g.Input("x", DType::kF32, shape);
}

// f of 0, 1, 2, ... in `shape`.
template <typename F>
Numbers Of(const Shape& shape, const F& f) {
  GraphBuilder g("values");
  g.Output("y", f(F32(g, shape)));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  Numbers x(static_cast<size_t>(shape.num_elements()));
  std::iota(x.begin(), x.end(), 0.0);
  return Interpret(*graph, {{"x", x}})["y"];
}

TEST_CASE("padding repeats a number, mirrors, or repeats the edge") {
  const auto padded = [](PadMode mode, double value) {
    return Of({4}, [&](Value x) { return Pad(x, {2}, {3}, mode, value); });
  };
  CHECK(padded(PadMode::kConstant, 7) == Numbers{7, 7, 0, 1, 2, 3, 7, 7, 7});
  CHECK(padded(PadMode::kReflect, 0) == Numbers{2, 1, 0, 1, 2, 3, 2, 1, 0});
  CHECK(padded(PadMode::kEdge, 0) == Numbers{0, 0, 0, 1, 2, 3, 3, 3, 3});
}

// As torch.nn.functional.interpolate has it.
TEST_CASE("resizing takes the nearest below, or mixes two") {
  const auto resized = [](int64_t size, ResizeMode mode, bool align) {
    return Of({1, 1, 4},
              [&](Value x) { return Resize(x, {size}, mode, align); });
  };
  CHECK(resized(8, ResizeMode::kNearest, false) ==
        Numbers{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(resized(3, ResizeMode::kNearest, false) == Numbers{0, 1, 2});
  CHECK(resized(8, ResizeMode::kLinear, false) ==
        Numbers{0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3});
  CHECK(resized(2, ResizeMode::kLinear, false) == Numbers{0.5, 2.5});
  CHECK(resized(7, ResizeMode::kLinear, true) ==
        Numbers{0, 0.5, 1, 1.5, 2, 2.5, 3});
  CHECK(resized(1, ResizeMode::kLinear, true) == Numbers{0});
}

TEST_CASE("depth becomes space and back, in the orders of ONNX and PyTorch") {
  // Channels (b, b, D) against (D, b, b), of 8 channels of one element.
  const Shape shape = {1, 8, 1, 1};
  CHECK(Of(shape, [](Value x) { return DepthToSpace(x, 2); }) ==
        Numbers{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK(Of(shape, [](Value x) { return PixelShuffle(x, 2); }) ==
        Numbers{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(Of({1, 2, 2, 2}, [](Value x) { return SpaceToDepth(x, 2); }) ==
        Numbers{0, 4, 1, 5, 2, 6, 3, 7});
  const Numbers same = Of({2, 12, 2, 3}, [](Value x) {
    return SpaceToDepth(DepthToSpace(x, 2), 2);
  });
  Numbers expected(2 * 12 * 2 * 3);
  std::iota(expected.begin(), expected.end(), 0.0);
  CHECK(same == expected);
}

TEST_CASE("errors of pad and resize name the values found") {
  CheckRows({
      {[](GraphBuilder& g) { Pad(F32(g, {}), {}, {}); },
       "[pad] x \"x\" is f32(); expected rank at least 1"},
      {[](GraphBuilder& g) {
         Pad(F32(g, {2, 3}), {1}, {0, 0});
       },
       "[pad] before has 1 entries; expected 2, one for each axis"},
      {[](GraphBuilder& g) {
         Pad(F32(g, {2, 3}), {0, 1}, {0, -1});
       },
       "[pad] after is -1 along axis 1; expected 0 to 2147483647: slice is "
       "what cuts off"},
      {[](GraphBuilder& g) {
         Pad(F32(g, {2, 3}), {0, 1}, {0, 3}, PadMode::kReflect);
       },
       "[pad] cannot reflect 3 elements of axis 1 into padding of 1 and 3; "
       "expected at most 2"},
      {[](GraphBuilder& g) {
         Pad(F32(g, {2, 3}), {0, 1}, {0, 1}, static_cast<PadMode>(3));
       },
       "[pad] mode is 3; expected 0 (constant), 1 (reflect) or 2 (edge)"},
      {[](GraphBuilder& g) {
         Apply(OpKind::kPadGrad, {F32(g, {5})},
               {{"before", Axes{2}}, {"after", Axes{3}}, {"mode", int64_t{2}}});
       },
       "[pad_grad] padding takes all 5 elements of axis 0: dy \"x\" is f32(5); "
       "expected more than 5"},
      {[](GraphBuilder& g) {
         Apply(OpKind::kPadGrad, {F32(g, {5})},
               {{"before", Axes{1}}, {"after", Axes{1}}, {"mode", int64_t{0}}});
       },
       "[pad_grad] mode is 0; expected 1 (reflect) or 2 (edge)"},
      {[](GraphBuilder& g) {
         Resize(F32(g, {2, 3}), {});
       },
       "[resize] x \"x\" is f32(2, 3); expected rank 3 to 5: examples, "
       "channels, and 1 to 3 spatial axes"},
      {[](GraphBuilder& g) {
         Resize(F32(g, {2, 3, 4, 5}), {8});
       },
       "[resize] there are 1 sizes: x \"x\" is f32(2, 3, 4, 5); expected 2, "
       "one for each spatial axis"},
      {[](GraphBuilder& g) {
         Resize(F32(g, {2, 3, 4}), {0});
       },
       "[resize] the size of axis 2 is 0; expected 1 to 1073741824"},
      {[](GraphBuilder& g) {
         Resize(F32(g, {2, 3, 4}), {8}, ResizeMode::kNearest, true);
       },
       "[resize] align_corners is 1 and mode 0 (nearest); expected mode 1 "
       "(linear) or align_corners 0"},
      {[](GraphBuilder& g) {
         Resize(F32(g, {2, 3, 4}), {8}, static_cast<ResizeMode>(2));
       },
       "[resize] mode is 2; expected 0 (nearest) or 1 (linear)"},
      {[](GraphBuilder& g) {
         Apply(OpKind::kResizeGrad, {F32(g, {2, 3, 4})},
               {{"shape", Axes{2, 4, 4}},
                {"mode", int64_t{0}},
                {"align_corners", int64_t{0}}});
       },
       "[resize_grad] shape is (2, 4, 4) and dy \"x\" is f32(2, 3, 4); "
       "expected as many axes, examples and channels"},
      {[](GraphBuilder& g) {
         DepthToSpace(F32(g, {1, 6, 2, 2}), 2);
       },
       "[depth_to_space] x \"x\" is f32(1, 6, 2, 2); expected (N, C, H, W), C "
       "a multiple of the square of the block, 2, which is 1 to 32768"},
      {[](GraphBuilder& g) {
         SpaceToDepth(F32(g, {1, 6, 2, 3}), 2);
       },
       "[space_to_depth] x \"x\" is f32(1, 6, 2, 3); expected (N, C, H, W), H "
       "and W multiples of the block, 2"},
  });
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

TEST_CASE("errors of pooling name the values found") {
  CheckRows({
      {[](GraphBuilder& g) {
         MaxPool(F32(g, {2, 3}), {.kernel = 2});
       },
       "[max_pool] x \"x\" is f32(2, 3); expected rank 3 to 5: examples, "
       "channels, and 1 to 3 spatial axes"},
      {[](GraphBuilder& g) {
         AvgPool(F32(g, {2, 3, 4, 5}), {.kernel = {2, 2, 2}});
       },
       "[avg_pool] kernel has 3 entries; expected 2, one for each spatial "
       "axis"},
      {[](GraphBuilder& g) {
         MaxPool(F32(g, {2, 3, 4, 5}), {.kernel = 2, .stride = {1, 0}});
       },
       "[max_pool] stride is 0 along axis 3; expected 1 to 2147483647"},
      {[](GraphBuilder& g) {
         MaxPool(F32(g, {2, 3, 4}), {.kernel = {2}, .padding = -1});
       },
       "[max_pool] pad_before is -1 along axis 2; expected 0 to 2147483647"},
      {[](GraphBuilder& g) {
         MaxPool(F32(g, {2, 3, 4}), {.kernel = {int64_t{1} << 40}});
       },
       "[max_pool] kernel is 1099511627776 along axis 2; expected 1 to "
       "2147483647"},
      {[](GraphBuilder& g) {
         MaxPool(F32(g, {2, 3, 9, 5}), {.kernel = {2, 4},
                                        .stride = 1,
                                        .padding = {0, 1},
                                        .dilation = {1, 3}});
       },
       "[max_pool] kernel 4 with dilation 3 reaches over 10 along axis 3 of 5 "
       "elements, padded by 1 and 1; expected at most 7"},
      {[](GraphBuilder& g) {
         AvgPool(F32(g, {2, 3, 9}), {.kernel = {2}, .padding = {0, 2}});
       },
       "[avg_pool] a window that reaches over 2 may lie in the padding alone "
       "along axis 2 of 9 elements, padded by 0 and 2; expected less padding "
       "on either side"},
      {[](GraphBuilder& g) {
         MaxPool(F32(g, {2, 3, 1}),
                 {.kernel = 2, .stride = 1, .padding = 2, .dilation = {3}});
       },
       "[max_pool] a window with dilation 3 may lie in the padding alone along "
       "axis 2 of 1 elements, padded by 2 and 2; expected a dilation of at "
       "most 1"},
      {[](GraphBuilder& g) {
         AvgPool(F32(g, {2, 3, 9}), {.kernel = {2}, .dilation = {2}});
       },
       "[avg_pool] dilation is 2; expected 1: only max_pool dilates"},
      {[](GraphBuilder& g) {
         GlobalAvgPool(F32(g, {2, 3}));
       },
       "[global_avg_pool] x \"x\" is f32(2, 3); expected rank at least 3: "
       "examples, channels, spatial axes"},
      {[](GraphBuilder& g) {
         AdaptiveAvgPool(F32(g, {2, 3, 7, 6}), {7, 4});
       },
       "[adaptive_avg_pool] axis 3 cannot be cut into 4 equal windows: x \"x\" "
       "is f32(2, 3, 7, 6); expected a divisor of 6"},
      {[](GraphBuilder& g) {
         AdaptiveAvgPool(F32(g, {2, 3, 7, 6}), {1});
       },
       "[adaptive_avg_pool] x \"x\" is f32(2, 3, 7, 6) and there are 1 sizes; "
       "expected one for each spatial axis, of which there is at least one"},
      {[](GraphBuilder& g) {
         const Value x = F32(g, {2, 3, 8});
         MaxPool(x, {.kernel = {2}});
         Apply(OpKind::kMaxPoolGrad, {x, x}, g.graph().nodes().back().attrs);
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
         Apply(OpKind::kAvgPoolGrad, {x}, attrs);
       },
       "[avg_pool_grad] dy \"x\" is f32(2, 3, 8); expected f32(2, 3, 4), since "
       "shape is (2, 3, 8)"},
  });
}

}  // namespace
}  // namespace stowage
