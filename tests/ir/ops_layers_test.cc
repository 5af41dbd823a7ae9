// rms_norm, rope, glu, lstm and local_response_norm: errors, values, and which operands
// need no copy.

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
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

TEST_CASE("rms_norm") {
  CheckRows({
      {[](GraphBuilder& g) {
         RmsNorm(I32(g, "x", {4, 8}), F32(g, "w", {8}));
       },
       "[rms_norm] x \"x\" is i32(4, 8); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) { RmsNorm(F32(g, "x", {}), F32(g, "w", {})); },
       "[rms_norm] x \"x\" is f32(); expected rank at least 1"},
      {[](GraphBuilder& g) {
         RmsNorm(F32(g, "x", {4, 8}), F32(g, "w", {4}));
       },
       "[rms_norm] gamma \"w\" is f32(4); expected f32(8), since x \"x\" is "
       "f32(4, 8)"},
      {[](GraphBuilder& g) {
         RmsNorm(F32(g, "x", {4, 8}), F32(g, "w", {8}), 0);
       },
       "[rms_norm] eps is 0; expected a finite number above 0"},
      {[](GraphBuilder& g) {
         RmsNormGrad(F32(g, "x", {4, 8}), F32(g, "w", {8}), F32(g, "rstd", {8}),
                     F32(g, "dy", {4, 8}));
       },
       "[rms_norm_grad] rstd \"rstd\" is f32(8); expected f32(4), since x "
       "\"x\" is f32(4, 8)"},
      {[](GraphBuilder& g) {
         RmsNormGrad(F32(g, "x", {4, 8}), F32(g, "w", {8}), F32(g, "rstd", {4}),
                     F32(g, "dy", {8}));
       },
       "[rms_norm_grad] dy \"dy\" is f32(8); expected f32(4, 8), since x \"x\" "
       "is f32(4, 8)"},
  });
}

TEST_CASE("rope") {
  CheckRows({
      {[](GraphBuilder& g) {
         Rope(I32(g, "x", {1, 4, 2, 8}));
       },
       "[rope] x \"x\" is i32(1, 4, 2, 8); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         Rope(F32(g, "x", {4, 2, 8}));
       },
       "[rope] x \"x\" is f32(4, 2, 8); expected (B, T, H, D): batch, time, "
       "heads, elements"},
      {[](GraphBuilder& g) {
         Rope(F32(g, "x", {1, 4, 2, 7}));
       },
       "[rope] dims is 7: x \"x\" is f32(1, 4, 2, 7); expected an even number "
       "from 2 to its last dimension, 7"},
      {[](GraphBuilder& g) {
         Rope(F32(g, "x", {1, 4, 2, 8}), Value(), {.dims = 10});
       },
       "[rope] dims is 10: x \"x\" is f32(1, 4, 2, 8); expected an even number "
       "from 2 to its last dimension, 8"},
      {[](GraphBuilder& g) {
         Rope(F32(g, "x", {1, 4, 2, 8}), Value(), {.dims = -2});
       },
       "[rope] dims is -2: x \"x\" is f32(1, 4, 2, 8); expected an even number "
       "from 2 to its last dimension, 8"},
      {[](GraphBuilder& g) {
         Rope(F32(g, "x", {1, 4, 2, 8}), Value(), {.base = 0});
       },
       "[rope] base is 0; expected a finite number above 0"},
      {[](GraphBuilder& g) {
         Rope(F32(g, "x", {3, 4, 2, 8}), I32(g, "at", {3}));
       },
       "[rope] positions \"at\" is i32(3); expected i32(4) or i32(3, 4), since "
       "x \"x\" is f32(3, 4, 2, 8)"},
      {[](GraphBuilder& g) {
         Rope(F32(g, "x", {3, 4, 2, 8}), F32(g, "at", {4}));
       },
       "[rope] positions \"at\" is f32(4); expected i32(4) or i32(3, 4), since "
       "x \"x\" is f32(3, 4, 2, 8)"},
      {[](GraphBuilder& g) {
         const Value x = F32(g, "x", {3, 4, 2, 8});
         const Value operands[] = {x, x, x};
         g.Emit(OpKind::kRope, operands, {});
       },
       "[rope] takes 1 operand, or 2 with positions; was given 3"},
  });
}

TEST_CASE("glu") {
  CheckRows({
      {[](GraphBuilder& g) { SwiGlu(I32(g, "gate", {4}), I32(g, "up", {4})); },
       "[glu] gate \"gate\" is i32(4); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         SwiGlu(F32(g, "gate", {4, 2}), F32(g, "up", {2}));
       },
       "[glu] shapes differ: up \"up\" is f32(2), gate \"gate\" is f32(4, 2); "
       "expected one shape"},
      {[](GraphBuilder& g) {
         Glu(F32(g, "gate", {4}), F32(g, "up", {4}),
             static_cast<GluActivation>(3));
       },
       "[glu] activation is 3; expected 0 (silu), 1 (gelu_tanh) or 2 "
       "(gelu_erf)"},
      {[](GraphBuilder& g) {
         GluGrad(F32(g, "gate", {4}), F32(g, "up", {4}), F32(g, "dy", {5}),
                 GluActivation::kSilu);
       },
       "[glu_grad] shapes differ: dy \"dy\" is f32(5), gate \"gate\" is "
       "f32(4); "
       "expected one shape"},
  });
}

// Copies that the finished graph of `build` holds.
int Copies(void (*build)(GraphBuilder& g)) {
  GraphBuilder g("views");
  build(g);
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  int copies = 0;
  for (const Node& node : graph->nodes()) copies += node.op == OpKind::kCopy;
  return copies;
}

TEST_CASE("rope takes heads of a packed qkv, and glu halves, as they lie") {
  CHECK(Copies([](GraphBuilder& g) {
          const std::vector<Value> parts =
              Split(F32(g, "qkv", {2, 7, 24}), 2, {8, 8, 8});
          Rope(Reshape(parts[1], {2, 7, 2, 4}));
          SwiGlu(parts[0], parts[2]);
        }) == 0);
  CHECK(Copies([](GraphBuilder& g) {
          Rope(Permute(F32(g, "x", {2, 7, 4, 6}), {0, 1, 3, 2}));
        }) == 1);
}

TEST_CASE("errors of lstm name the values found") {
  CheckRows({
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         LstmSequence(F32(g, "x", {2, 3, 18}), state, state,
                      F32(g, "w", {16, 4}));
       },
       "[lstm] gates \"x\" is f32(2, 3, 18); expected (batch, time, 4 "
       "hidden)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         LstmSequence(F32(g, "x", {2, 16}), state, state, F32(g, "w", {16, 4}));
       },
       "[lstm] gates \"x\" is f32(2, 16); expected (batch, time, 4 hidden)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         LstmSequence(g.Input("x", DType::kI32, {2, 3, 16}), state, state,
                      F32(g, "w", {16, 4}));
       },
       "[lstm] gates \"x\" is i32(2, 3, 16); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         LstmSequence(F32(g, "x", {2, 3, 16}), F32(g, "h0", {1, 4}),
                      F32(g, "c0", {2, 4}), F32(g, "w", {16, 4}));
       },
       "[lstm] h0 \"h0\" is f32(1, 4); expected f32(2, 4), since gates \"x\" "
       "is f32(2, 3, 16)"},
      {[](GraphBuilder& g) {
         LstmSequence(F32(g, "x", {2, 3, 16}), F32(g, "h0", {2, 4}),
                      F32(g, "c0", {2, 3}), F32(g, "w", {16, 4}));
       },
       "[lstm] c0 \"c0\" is f32(2, 3); expected f32(2, 4), since gates \"x\" "
       "is f32(2, 3, 16)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         LstmSequence(F32(g, "x", {2, 3, 16}), state, state,
                      F32(g, "w", {4, 16}));
       },
       "[lstm] w \"w\" is f32(4, 16); expected f32(16, 4), since gates \"x\" "
       "is f32(2, 3, 16)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         const Value sequence = F32(g, "c", {2, 3, 4});
         LstmGrad(F32(g, "x", {2, 3, 16}), state, F32(g, "w", {16, 4}),
                  sequence, sequence, F32(g, "dc", {2, 4, 3}), false);
       },
       "[lstm_grad] dc \"dc\" is f32(2, 4, 3); expected f32(2, 3, 4), since "
       "gates \"x\" is f32(2, 3, 16)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         Apply(OpKind::kLstmGrad,
               {F32(g, "x", {2, 3, 16}), state, F32(g, "w", {16, 4}),
                F32(g, "c", {2, 3, 4})},
               {{"reverse", int64_t{0}}});
       },
       "[lstm_grad] takes 5 operands, or 6 with dc; got 4"},
      {[](GraphBuilder& g) {
         LstmWeightGrad(F32(g, "x", {2, 3, 16}), F32(g, "h0", {2, 4}),
                        F32(g, "h", {2, 4, 4}), false);
       },
       "[lstm_weight_grad] h \"h\" is f32(2, 4, 4); expected f32(2, 3, 4), "
       "since dgates \"x\" is f32(2, 3, 16)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         Apply(OpKind::kLstmWeightGrad,
               {F32(g, "x", {2, 3, 16}), state, F32(g, "h", {2, 3, 4})},
               {{"reverse", int64_t{2}}});
       },
       "[lstm_weight_grad] attribute \"reverse\" is 2; expected 0 or 1"},
  });
}

Value F32(GraphBuilder& g, const Shape& shape) {
  return g.Input("x", DType::kF32, shape);
}

// local_response_norm of x, one number a channel.
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

TEST_CASE("errors of local_response_norm name the values found") {
  CheckRows({
      {[](GraphBuilder& g) {
         LocalResponseNorm(g.Input("x", DType::kI32, {2, 3}));
       },
       "[local_response_norm] x \"x\" is i32(2, 3); expected f32, f64, f16 or "
       "bf16"},
      {[](GraphBuilder& g) { LocalResponseNorm(F32(g, {7})); },
       "[local_response_norm] x \"x\" is f32(7); expected rank at least 2"},
      {[](GraphBuilder& g) {
         LocalResponseNorm(F32(g, {2, 3}), {.size = 0});
       },
       "[local_response_norm] size is 0; expected 1 to 2147483647"},
      {[](GraphBuilder& g) {
         LocalResponseNorm(F32(g, {2, 3}), {.size = int64_t{1} << 31});
       },
       "[local_response_norm] size is 2147483648; expected 1 to 2147483647"},
      {[](GraphBuilder& g) {
         constexpr double kInf = std::numeric_limits<double>::infinity();
         LocalResponseNorm(F32(g, {2, 3}), {.alpha = kInf});
       },
       "[local_response_norm] alpha is inf; expected a finite number"},
      {[](GraphBuilder& g) {
         constexpr double kInf = std::numeric_limits<double>::infinity();
         LocalResponseNorm(F32(g, {2, 3}), {.beta = -kInf});
       },
       "[local_response_norm] beta is -inf; expected a finite number"},
      {[](GraphBuilder& g) {
         constexpr double kInf = std::numeric_limits<double>::infinity();
         LocalResponseNorm(F32(g, {2, 3}), {.bias = kInf});
       },
       "[local_response_norm] bias is inf; expected a finite number"},
      {[](GraphBuilder& g) {
         const Value x = F32(g, {2, 3, 8});
         LocalResponseNorm(x);
         Apply(OpKind::kLocalResponseNormGrad,
               {x, g.Input("dy", DType::kF32, {2, 3, 4})},
               g.graph().nodes().back().attrs);
       },
       "[local_response_norm_grad] dy \"dy\" is f32(2, 3, 4); expected f32(2, "
       "3, 8), since x \"x\" is f32(2, 3, 8)"},
  });
}

}  // namespace
}  // namespace stowage
