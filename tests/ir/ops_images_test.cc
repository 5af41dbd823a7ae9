// Shapes, values and mistakes of what pads, resizes and rearranges images.

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/shape.h"
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

struct Mistake {
  Value (*build)(GraphBuilder& g);
  const char* message;
};

TEST_CASE("mistakes are told with the values found") {
  const std::vector<Mistake> mistakes = {
      {[](GraphBuilder& g) { return Pad(F32(g, {}), {}, {}); },
       "[pad] x \"x\" is f32(); expected rank at least 1"},
      {[](GraphBuilder& g) {
         return Pad(F32(g, {2, 3}), {1}, {0, 0});
       },
       "[pad] before has 1 entries; expected 2, one for each axis"},
      {[](GraphBuilder& g) {
         return Pad(F32(g, {2, 3}), {0, 1}, {0, -1});
       },
       "[pad] after is -1 along axis 1; expected 0 to 2147483647: slice is "
       "what cuts off"},
      {[](GraphBuilder& g) {
         return Pad(F32(g, {2, 3}), {0, 1}, {0, 3}, PadMode::kReflect);
       },
       "[pad] cannot reflect 3 elements of axis 1 into padding of 1 and 3; "
       "expected at most 2"},
      {[](GraphBuilder& g) {
         return Pad(F32(g, {2, 3}), {0, 1}, {0, 1}, static_cast<PadMode>(3));
       },
       "[pad] mode is 3; expected 0 (constant), 1 (reflect) or 2 (edge)"},
      {[](GraphBuilder& g) {
         return Apply(
             OpKind::kPadGrad, {F32(g, {5})},
             {{"before", Axes{2}}, {"after", Axes{3}}, {"mode", int64_t{2}}});
       },
       "[pad_grad] padding takes all 5 elements of axis 0: dy \"x\" is f32(5); "
       "expected more than 5"},
      {[](GraphBuilder& g) {
         return Apply(
             OpKind::kPadGrad, {F32(g, {5})},
             {{"before", Axes{1}}, {"after", Axes{1}}, {"mode", int64_t{0}}});
       },
       "[pad_grad] mode is 0; expected 1 (reflect) or 2 (edge)"},
      {[](GraphBuilder& g) {
         return Resize(F32(g, {2, 3}), {});
       },
       "[resize] x \"x\" is f32(2, 3); expected rank 3 to 5: examples, "
       "channels, and 1 to 3 spatial axes"},
      {[](GraphBuilder& g) {
         return Resize(F32(g, {2, 3, 4, 5}), {8});
       },
       "[resize] there are 1 sizes: x \"x\" is f32(2, 3, 4, 5); expected 2, "
       "one for each spatial axis"},
      {[](GraphBuilder& g) {
         return Resize(F32(g, {2, 3, 4}), {0});
       },
       "[resize] the size of axis 2 is 0; expected 1 to 1073741824"},
      {[](GraphBuilder& g) {
         return Resize(F32(g, {2, 3, 4}), {8}, ResizeMode::kNearest, true);
       },
       "[resize] align_corners is 1 and mode 0 (nearest); expected mode 1 "
       "(linear) or align_corners 0"},
      {[](GraphBuilder& g) {
         return Resize(F32(g, {2, 3, 4}), {8}, static_cast<ResizeMode>(2));
       },
       "[resize] mode is 2; expected 0 (nearest) or 1 (linear)"},
      {[](GraphBuilder& g) {
         return Apply(OpKind::kResizeGrad, {F32(g, {2, 3, 4})},
                      {{"shape", Axes{2, 4, 4}},
                       {"mode", int64_t{0}},
                       {"align_corners", int64_t{0}}});
       },
       "[resize_grad] shape is (2, 4, 4) and dy \"x\" is f32(2, 3, 4); "
       "expected as many axes, examples and channels"},
      {[](GraphBuilder& g) {
         return DepthToSpace(F32(g, {1, 6, 2, 2}), 2);
       },
       "[depth_to_space] x \"x\" is f32(1, 6, 2, 2); expected (N, C, H, W), C "
       "a multiple of the square of the block, 2, which is 1 to 32768"},
      {[](GraphBuilder& g) {
         return SpaceToDepth(F32(g, {1, 6, 2, 3}), 2);
       },
       "[space_to_depth] x \"x\" is f32(1, 6, 2, 3); expected (N, C, H, W), H "
       "and W multiples of the block, 2"},
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
