// Values and mistakes of local_response_norm.

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "ir/windows.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

using Numbers = std::vector<double>;

Value F32(GraphBuilder& g, const Shape& shape) {
  return g.Input("x", DType::kF32, shape);
}

// Of channels of one number each.
Numbers Normalized(const Numbers& x, const LocalResponse& response) {
  GraphBuilder g("values");
  const auto channels = static_cast<int64_t>(x.size());
  g.Output("y", LocalResponseNorm(F32(g, {1, channels, 1}), response));
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  return Interpret(*graph, {{"x", x}})["y"];
}

TEST_CASE("the longer half of an even window lies behind") {
  // Sums of 1, 4, 16 and 64, three, four, one and ten at a time.
  const Numbers x = {1, 2, 4, 8};
  CHECK(Normalized(x, {.size = 3, .alpha = 3, .beta = 1, .bias = 0}) ==
        Numbers{1.0 / 5, 2.0 / 21, 4.0 / 84, 8.0 / 80});
  CHECK(Normalized(x, {.size = 4, .alpha = 4, .beta = 1, .bias = 0}) ==
        Numbers{1.0 / 21, 2.0 / 85, 4.0 / 84, 8.0 / 80});
  CHECK(Normalized(x, {.size = 1, .alpha = 2, .beta = 1, .bias = 2}) ==
        Numbers{1.0 / 4, 2.0 / 10, 4.0 / 34, 8.0 / 130});
  CHECK(Normalized(x, {.size = 10, .alpha = 10, .beta = 1, .bias = 15}) ==
        Numbers{1.0 / 100, 2.0 / 100, 4.0 / 100, 8.0 / 100});
}

TEST_CASE("a window has no more channels than there are") {
  const ChannelWindow even = ChannelWindow::Of(4, 96);
  CHECK(even.before == 1);
  CHECK(even.after == 2);
  CHECK(even.length() == 4);
  const ChannelWindow wide = ChannelWindow::Of(99, 3);
  CHECK(wide.before == 2);
  CHECK(wide.after == 2);
  CHECK(ChannelWindow::Of(1, 3).length() == 1);
  CHECK(ChannelWindow::Of(5, 1).length() == 1);
}

struct Mistake {
  Value (*build)(GraphBuilder& g);
  std::string message;
};

TEST_CASE("mistakes are told with the values found") {
  const std::vector<Mistake> mistakes = {
      {[](GraphBuilder& g) {
         return LocalResponseNorm(g.Input("x", DType::kI32, {2, 3}));
       },
       "[local_response_norm] x \"x\" is i32(2, 3); expected f32, f64, f16 or "
       "bf16"},
      {[](GraphBuilder& g) { return LocalResponseNorm(F32(g, {7})); },
       "[local_response_norm] x \"x\" is f32(7); expected rank at least 2"},
      {[](GraphBuilder& g) {
         return LocalResponseNorm(F32(g, {2, 3}), {.size = 0});
       },
       "[local_response_norm] size is 0; expected 1 to 2147483647"},
      {[](GraphBuilder& g) {
         return LocalResponseNorm(F32(g, {2, 3}), {.size = int64_t{1} << 31});
       },
       "[local_response_norm] size is 2147483648; expected 1 to 2147483647"},
      {[](GraphBuilder& g) {
         constexpr double kInf = std::numeric_limits<double>::infinity();
         return LocalResponseNorm(F32(g, {2, 3}), {.alpha = kInf});
       },
       "[local_response_norm] alpha is inf; expected a finite number"},
      {[](GraphBuilder& g) {
         constexpr double kInf = std::numeric_limits<double>::infinity();
         return LocalResponseNorm(F32(g, {2, 3}), {.beta = -kInf});
       },
       "[local_response_norm] beta is -inf; expected a finite number"},
      {[](GraphBuilder& g) {
         constexpr double kInf = std::numeric_limits<double>::infinity();
         return LocalResponseNorm(F32(g, {2, 3}), {.bias = kInf});
       },
       "[local_response_norm] bias is inf; expected a finite number"},
      {[](GraphBuilder& g) {
         const Value x = F32(g, {2, 3, 8});
         LocalResponseNorm(x);
         return Apply(OpKind::kLocalResponseNormGrad,
                      {x, g.Input("dy", DType::kF32, {2, 3, 4})},
                      g.graph().nodes().back().attrs);
       },
       "[local_response_norm_grad] dy \"dy\" is f32(2, 3, 4); expected f32(2, "
       "3, 8), since x \"x\" is f32(2, 3, 8)"},
  };
  for (const Mistake& mistake : mistakes) {
    GraphBuilder g("mistakes");
    mistake.build(g);
    const Result<Graph> graph = g.Finish();
    const std::string message = graph.ok() ? "none" : graph.error().message;
    CHECK(message.substr(0, message.find(" (at ")) == mistake.message);
  }
}

}  // namespace
}  // namespace stowage
