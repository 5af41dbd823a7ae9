// rms_norm, rope and glu: every mistake that they name, and which operands they take
// as they lie.

#include <doctest/doctest.h>

#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "tests/ir/error_rows.h"
#include "tests/ir/typed_inputs.h"

namespace stowage {
namespace {

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

}  // namespace
}  // namespace stowage
