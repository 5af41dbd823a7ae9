// Rows of the op test table for chains of elementwise ops, by themselves and after a
// product.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/graph.h"
#include "tests/support/op_case_table.h"

namespace stowage::testing {
namespace {

// The parts: their results, the last in front.
using Parts = std::function<Out(In)>;

Attrs ProgramOf(const TensorType& type, size_t leaves, const Parts& parts) {
  GraphBuilder g("parts");
  std::vector<Value> x;
  for (size_t i = 0; i < leaves; ++i) {
    x.push_back(g.Input(StrCat("x", i), type.dtype, type.shape));
  }
  const Out y = parts(x);
  for (size_t i = 0; i < y.size(); ++i) g.Output(StrCat("y", i), y[i]);
  Result<Graph> program = g.Finish();
  STOWAGE_CHECK(program.ok());
  return {{"program",
           SubGraphs{std::make_shared<const Graph>(*std::move(program))}}};
}

Out Elementwise(GraphBuilder& g, const std::vector<Value>& x,
                const Parts& parts) {
  Out results = g.Emit(OpKind::kFusedElementwise, x,
                       ProgramOf(x[0].type(), x.size(), parts));
  return results;
}

// `type` is the product's.
Out AfterProduct(GraphBuilder& g, const std::vector<Value>& x,
                 const Shape& shape, bool transpose_b, const Parts& parts) {
  Attrs attrs{{"transpose_a", int64_t{0}},
              {"transpose_b", int64_t{transpose_b}}};
  const Attrs program = ProgramOf({x[0].dtype(), shape}, x.size() - 1, parts);
  attrs.Set("program", *program.Find("program"));
  return g.Emit(OpKind::kFusedMatMul, x, attrs);
}

Out BiasGelu(In x) {
  const Value before = Add(x[0], x[1]);
  return {GeluTanh(before), before};
}
Out BiasResidual(In x) { return {Add(x[2], Add(x[0], x[1]))}; }
Out GeluGradient(In x) { return {GeluTanhGrad(x[1], x[0])}; }

}  // namespace

void AddFused(OpCaseTable& t) {
  const auto leaf = [&](const char* name, const Shape& shape) {
    return t.Real(name, shape, -2, 2);
  };
  t.Add(OpKind::kFusedElementwise, " of one part", {leaf("x", {3, 5})},
        [](GraphBuilder& g, In in) {
          return Elementwise(g, {in[0]}, [](In x) { return Out{Relu(x[0])}; });
        });
  t.Add(OpKind::kFusedElementwise, ", bias and gelu, both kept",
        {leaf("x", {2, 9, 32}), leaf("bias", {32})},
        [](GraphBuilder& g, In in) {
          return Elementwise(g, {in[0], BroadcastTo(in[1], {2, 9, 32})},
                             BiasGelu);
        });
  t.Add(OpKind::kFusedElementwise, ", longer than a block, in odd rows",
        {leaf("x", {9, 131}), leaf("bias", {131}), leaf("residual", {9, 131})},
        [](GraphBuilder& g, In in) {
          return Elementwise(g, {in[0], BroadcastTo(in[1], {9, 131}), in[2]},
                             BiasResidual);
        });
  t.Add(OpKind::kFusedElementwise, " of views",
        {leaf("x", {7, 3}), leaf("dy", {3, 14}), leaf("scale", {})},
        [](GraphBuilder& g, In in) {
          return Elementwise(g,
                             {Transpose(in[0]), Slice(in[1], 1, 0, 14, 2),
                              BroadcastTo(in[2], {3, 7})},
                             [](In x) {
                               const Value gated = Mul(Sigmoid(x[0]), x[1]);
                               return Out{Sub(x[2], Square(gated)), gated};
                             });
        });
  t.Add(OpKind::kFusedElementwise, " whose parts read the chain twice",
        {leaf("x", {40})}, [](GraphBuilder& g, In in) {
          return Elementwise(g, {in[0]}, [](In x) {
            const Value square = Mul(x[0], x[0]);
            return Out{Maximum(Add(square, square), x[0])};
          });
        });
  t.Add(OpKind::kFusedElementwise, " of as much as there may be",
        {leaf("a", {6, 24}), leaf("b", {6, 24}), leaf("c", {6, 24}),
         leaf("d", {6, 24}), leaf("e", {6, 24})},
        [](GraphBuilder& g, In in) {
          return Elementwise(g, {in.begin(), in.end()}, [](In x) {
            const Value sum = Add(x[0], x[1]);
            const Value gate = Mul(Tanh(sum), x[2]);
            const Value rest = Sub(Silu(gate), x[3]);
            return Out{Neg(Minimum(rest, x[4])), sum, gate};
          });
        });
  t.Add(OpKind::kFusedElementwise, " of a scalar", {leaf("x", {})},
        [](GraphBuilder& g, In in) {
          return Elementwise(g, {in[0]},
                             [](In x) { return Out{Exp(Neg(x[0]))}; });
        });
  for (const auto& [op, f] :
       {std::pair<OpKind, Binary>{OpKind::kReluGrad, ReluGrad},
        {OpKind::kSigmoidGrad, SigmoidGrad},
        {OpKind::kTanhGrad, TanhGrad},
        {OpKind::kSiluGrad, SiluGrad},
        {OpKind::kGeluErfGrad, GeluErfGrad},
        {OpKind::kDiv, Div}}) {
    t.Add(OpKind::kFusedElementwise, StrCat(" with ", OpName(op)),
          {leaf("x", {3, 8}), t.Real("dy", {3, 8}, 0.5, 2)},
          [f = f](GraphBuilder& g, In in) {
            return Elementwise(g, {in[0], in[1]}, [f](In x) {
              return Out{f(Abs(x[0]), x[1], kLoc)};
            });
          });
  }
  for (const auto& [op, f] : {std::pair<OpKind, Unary>{OpKind::kSqrt, Sqrt},
                              {OpKind::kRsqrt, Rsqrt},
                              {OpKind::kReciprocal, Reciprocal},
                              {OpKind::kGeluErf, GeluErf}}) {
    t.Add(OpKind::kFusedElementwise, StrCat(" with ", OpName(op)),
          {t.Real("x", {3, 8}, 0.5, 2)}, [f = f](GraphBuilder& g, In in) {
            return Elementwise(g, {in[0]},
                               [f](In x) { return Out{f(Abs(x[0]), kLoc)}; });
          });
  }

  t.Add(OpKind::kFusedMatMul, ", bias",
        {leaf("a", {5, 7}), leaf("b", {7, 53}), leaf("bias", {53})},
        [](GraphBuilder& g, In in) {
          return AfterProduct(g, {in[0], in[1], BroadcastTo(in[2], {5, 53})},
                              {5, 53}, false,
                              [](In x) { return Out{Add(x[0], x[1])}; });
        });
  t.Add(OpKind::kFusedMatMul, ", bias and residual, of sequences",
        {leaf("a", {2, 19, 8}), leaf("b", {50, 8}), leaf("bias", {50}),
         leaf("residual", {2, 19, 50})},
        [](GraphBuilder& g, In in) {
          return AfterProduct(
              g, {in[0], in[1], BroadcastTo(in[2], {2, 19, 50}), in[3]},
              {2, 19, 50}, true, BiasResidual);
        });
  t.Add(OpKind::kFusedMatMul, ", bias and gelu, both kept, of a long sum",
        {t.Real("a", {21, 530}, -0.1, 0.1), leaf("b", {530, 49}),
         leaf("bias", {49})},
        [](GraphBuilder& g, In in) {
          return AfterProduct(g, {in[0], in[1], BroadcastTo(in[2], {21, 49})},
                              {21, 49}, false, BiasGelu);
        });
  t.Add(OpKind::kFusedMatMul, ", residual, of a long sum",
        {t.Real("a", {9, 600}, -0.1, 0.1), leaf("b", {600, 17}),
         leaf("residual", {9, 17})},
        [](GraphBuilder& g, In in) {
          return AfterProduct(g, {in[0], in[1], in[2]}, {9, 17}, false,
                              [](In x) { return Out{Add(x[1], x[0])}; });
        });
  t.Add(OpKind::kFusedMatMul, ", gradient of gelu, in a batch",
        {leaf("a", {3, 10, 4}), leaf("b", {3, 4, 18}), leaf("x", {3, 10, 18})},
        [](GraphBuilder& g, In in) {
          return AfterProduct(g, {in[0], in[1], in[2]}, {3, 10, 18}, false,
                              GeluGradient);
        });
  t.Add(OpKind::kFusedMatMul, ", bias twice, and a part in between",
        {leaf("a", {4, 6}), leaf("b", {6, 20}), leaf("bias", {20}),
         leaf("gate", {4, 20})},
        [](GraphBuilder& g, In in) {
          return AfterProduct(
              g, {in[0], in[1], BroadcastTo(in[2], {4, 20}), in[3]}, {4, 20},
              false, [](In x) {
                const Value sum = Add(Add(x[0], x[1]), x[1]);
                return Out{Mul(x[2], Relu(sum)), sum};
              });
        });
}

}  // namespace stowage::testing
