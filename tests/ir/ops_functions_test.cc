#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/ir/op_rows.h"

namespace stowage {
namespace {

using Kinds = std::vector<OpKind>;
using Values = std::vector<Value>;

Values Only(Value value) { return {value}; }

std::vector<OpKind> Ops(const Graph& graph) {
  std::vector<OpKind> ops;
  for (const Node& node : graph.nodes()) ops.push_back(node.op);
  return ops;
}

TEST_CASE("binary functions broadcast only the operands that need it") {
  struct BroadcastRow {
    Shape a, b;
    std::string result;
    int views;
  };
  for (const BroadcastRow& row : {
           BroadcastRow{{2, 3}, {2, 3}, "f32(2, 3)", 0},
           BroadcastRow{{2, 3}, {3}, "f32(2, 3)", 1},
           BroadcastRow{{3}, {2, 3}, "f32(2, 3)", 1},
           BroadcastRow{{2, 3}, {2, 1}, "f32(2, 3)", 1},
           BroadcastRow{{2, 3}, {}, "f32(2, 3)", 1},
           BroadcastRow{{2, 1}, {1, 3}, "f32(2, 3)", 2},
           BroadcastRow{{4, 1, 3}, {2, 1}, "f32(4, 2, 3)", 2},
           BroadcastRow{{1, 1}, {1}, "f32(1, 1)", 1},
           BroadcastRow{{}, {}, "f32()", 0},
       }) {
    INFO(row.a.ToString() << " with " << row.b.ToString());
    GraphBuilder g("broadcast");
    const Value a = F32(g, "a", row.a);
    const Value b = F32(g, "b", row.b);
    CHECK(Add(a, b).type().ToString() == row.result);
    CHECK(g.graph().num_nodes() == 1 + row.views);
    CHECK(Less(a, b).dtype() == DType::kBool);
    CHECK(g.graph().num_nodes() == 2 + 2 * row.views);
  }
}

TEST_CASE("scalars join as fills of the operand's own type") {
  GraphBuilder g("scalars");
  const Value x = F64(g, "x", {2, 3});
  CHECK(AddScalar(x, 0.1).type().ToString() == "f64(2, 3)");
  CHECK(Ops(g.graph()) ==
        Kinds{OpKind::kFill, OpKind::kBroadcast, OpKind::kAdd});
  const Node& fill = g.graph().node(0);
  CHECK(fill.attrs.Float("value") == 0.1);
  CHECK(fill.attrs.Type("dtype") == DType::kF64);
  CHECK(MulScalar(I32(g, "n", {}), 3).type().ToString() == "i32()");
  CHECK(Ops(g.graph()) == Kinds{OpKind::kFill, OpKind::kBroadcast, OpKind::kAdd,
                                OpKind::kFill, OpKind::kMul});
}

TEST_CASE("a cast to the same type and a broadcast to the same shape are x") {
  GraphBuilder g("same");
  const Value x = F32(g, "x", {2, 3});
  CHECK(Cast(x, DType::kF32).id() == x.id());
  CHECK(BroadcastTo(x, {2, 3}).id() == x.id());
  CHECK(g.graph().num_nodes() == 0);
}

TEST_CASE("axes are stored from the front, reduction axes in order") {
  GraphBuilder g("axes");
  const Value x = F32(g, "x", {2, 3, 4});
  using L = std::vector<int64_t>;
  const auto last = [&]() -> const Attrs& {
    return g.graph().nodes().back().attrs;
  };
  ReduceSum(x, {-1, 0});
  CHECK(last() == Attrs{{"axes", L{0, 2}}, {"keep", int64_t{0}}});
  ReduceSum(x, {}, true);
  CHECK(last() == Attrs{{"axes", L{0, 1, 2}}, {"keep", int64_t{1}}});
  Permute(x, {-1, 0, 1});
  CHECK(last().Ints("order") == L{2, 0, 1});
  Slice(x, -3, 0, 1);
  CHECK(last().Int("axis") == 0);
  Split(x, -1, {1, 3});
  CHECK(last().Int("axis") == 2);
  const Values parts = {x, x};
  Concat(parts, -1);
  CHECK(last().Int("axis") == 2);
  Reshape(x, {4, -1});
  CHECK(last().Ints("shape") == L{4, 6});
}

TEST_CASE("softmax along another axis is a permute there and back") {
  GraphBuilder g("softmax");
  const Value x = F32(g, "x", {2, 3, 4});
  Softmax(x, 2);
  CHECK(Ops(g.graph()) == Kinds{OpKind::kSoftmax});
  Softmax(x, -3);
  REQUIRE(Ops(g.graph()) == Kinds{OpKind::kSoftmax, OpKind::kPermute,
                                  OpKind::kSoftmax, OpKind::kPermute});
  const Node& soft = g.graph().node(2);
  CHECK(g.graph().value(soft.inputs[0]).type.shape == Shape{4, 3, 2});
}

TEST_CASE("attention without a scale has 1/sqrt(D)") {
  for (const double scale : {0.0, -1.0, 0.25}) {
    GraphBuilder g("attention");
    const Value q = F32(g, "q", {1, 2, 1, 64});
    CausalAttention(q, q, q, scale);
    CHECK(g.graph().node(0).attrs.Float("scale") ==
          (scale > 0 ? scale : 0.125));
  }
}

TEST_CASE("a clip factor is an operand only where it is given") {
  for (const bool clipped : {false, true}) {
    GraphBuilder g("update");
    const Value w = g.Param("w", DType::kF32, {2});
    const Value clip = clipped ? F32(g, "clip", {}) : Value();
    SgdUpdate(w, F32(g, "dw", {2}), F32(g, "lr", {}), clip, 0);
    CHECK(g.graph().node(0).inputs.size() == (clipped ? 4u : 3u));
  }
}

TEST_CASE("update results keep the role of what they update") {
  GraphBuilder g("update");
  const MomentumResults r = MomentumUpdate(
      g.Param("w", DType::kF32, {2}), g.State("velocity", DType::kF32, {2}),
      F32(g, "dw", {2}), F32(g, "lr", {}), Value(), 0.9, 0);
  CHECK(g.info(r.w).role == Role::kParam);
  CHECK(g.info(r.velocity).role == Role::kState);
}

// --- Strides that kernels take ---

// Copies that the finished graph holds.
int Copies(GraphBuilder& g) {
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  int copies = 0;
  for (const Node& node : graph->nodes()) copies += node.op == OpKind::kCopy;
  return copies;
}

TEST_CASE("copies stand only where a kernel cannot take the strides") {
  struct CopyRow {
    const char* what;
    void (*build)(GraphBuilder& g);
    int copies;
  };
  const CopyRow rows[] = {
      {"elementwise of a transposed and a broadcast operand",
       [](GraphBuilder& g) {
         Mul(Transpose(F32(g, "x", {3, 2})), F32(g, "b", {3}));
       },
       0},
      {"where, cast, concat and dropout of transposed operands",
       [](GraphBuilder& g) {
         const Value x = Transpose(F32(g, "x", {3, 2}));
         const Values parts = {x, x};
         Concat(parts, 0);
         Where(Bool(g, "c", {2, 3}), x, x);
         Cast(x, DType::kF64);
         Dropout(x, I64(g, "seed", {}), I64(g, "step", {}), 0.5, 0);
       },
       0},
      {"matmul of transposed operands",
       [](GraphBuilder& g) {
         MatMul(Transpose(F32(g, "a", {3, 2})), Transpose(F32(g, "b", {5, 3})));
       },
       0},
      {"matmul of heads: (B, T, H, D) permuted to (B, H, T, D)",
       [](GraphBuilder& g) {
         const Value q = Permute(F32(g, "q", {2, 5, 3, 4}), {0, 2, 1, 3});
         MatMul(q, q, false, true);
       },
       0},
      {"matmul of column slices",
       [](GraphBuilder& g) {
         const Values x = Split(F32(g, "x", {4, 8}), 1, {4, 4});
         MatMul(x[0], x[1]);
       },
       0},
      {"matmul of every other row",
       [](GraphBuilder& g) {
         MatMul(Slice(F32(g, "a", {4, 3}), 0, 0, 4, 2), F32(g, "b", {3, 5}));
       },
       0},
      {"matmul of every other column",
       [](GraphBuilder& g) {
         MatMul(Slice(F32(g, "a", {4, 6}), 1, 0, 6, 2), F32(g, "b", {3, 5}));
       },
       1},
      {"matmul with a broadcast batch",
       [](GraphBuilder& g) {
         MatMul(F32(g, "a", {7, 2, 3}), F32(g, "b", {1, 3, 5}));
       },
       0},
      {"matmul of broadcast rows: they overlap",
       [](GraphBuilder& g) {
         MatMul(BroadcastTo(F32(g, "a", {3}), {2, 3}), F32(g, "b", {3, 5}));
       },
       1},
      {"matmul of broadcast columns",
       [](GraphBuilder& g) {
         MatMul(BroadcastTo(F32(g, "a", {2, 1}), {2, 3}), F32(g, "b", {3, 5}));
       },
       1},
      {"matmul of one broadcast row: nothing repeats",
       [](GraphBuilder& g) {
         MatMul(BroadcastTo(F32(g, "a", {3}), {1, 3}), F32(g, "b", {3, 5}));
       },
       0},
      {"a batch of single rows out of a column slice, row stride 0",
       [](GraphBuilder& g) {
         const Value x = Slice(F32(g, "x", {7, 6}), 1, 0, 3);
         const Value rows = Permute(BroadcastTo(x, {1, 7, 3}), {1, 0, 2});
         MatMul(rows, F32(g, "b", {3, 5}));
       },
       0},
      {"attention of a packed qkv",
       [](GraphBuilder& g) {
         const Values qkv = Split(
             Reshape(F32(g, "qkv", {2, 5, 36}), {2, 5, 9, 4}), 2, {3, 3, 3});
         CausalAttention(qkv[0], qkv[1], qkv[2]);
       },
       0},
      {"attention of (B, H, T, D) permuted back",
       [](GraphBuilder& g) {
         const Value q = Permute(F32(g, "q", {2, 3, 5, 4}), {0, 2, 1, 3});
         CausalAttention(q, q, q);
       },
       0},
      {"attention of repeated heads, of strided elements: k and v once each",
       [](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 3, 4});
         const Value k = BroadcastTo(F32(g, "k", {2, 5, 1, 4}), {2, 5, 3, 4});
         const Value v = Slice(F32(g, "v", {2, 5, 3, 8}), 3, 0, 8, 2);
         CausalAttention(q, k, v);
       },
       2},
      {"attention gradient: a strided log-sum-exp alone is copied",
       [](GraphBuilder& g) {
         const Value q = Permute(F32(g, "q", {2, 3, 5, 4}), {0, 2, 1, 3});
         AttentionGrad(q, q, q, q, Transpose(F32(g, "l", {2, 5, 3})), q);
       },
       1},
      {"softmax of a transposed operand, used twice",
       [](GraphBuilder& g) {
         const Value x = Transpose(F32(g, "x", {3, 2}));
         Softmax(x);
         LogSoftmax(x);
       },
       1},
      {"reductions, gather and norms of transposed operands",
       [](GraphBuilder& g) {
         ReduceSum(Transpose(F32(g, "x", {3, 2})));
         Gather(Transpose(F32(g, "t", {3, 2})), I32(g, "i", {2}));
         LayerNorm(Transpose(F32(g, "z", {3, 2})), F32(g, "gamma", {3}),
                   F32(g, "beta", {3}));
       },
       3},
      {"update with a transposed gradient",
       [](GraphBuilder& g) {
         SgdUpdate(g.Param("w", DType::kF32, {2, 3}),
                   Transpose(F32(g, "dw", {3, 2})), F32(g, "lr", {}), Value(),
                   0);
       },
       1},
      {"reshape that strides cannot express",
       [](GraphBuilder& g) {
         Reshape(Transpose(F32(g, "x", {3, 2})), {6});
       },
       1},
  };
  for (const CopyRow& row : rows) {
    INFO(row.what);
    GraphBuilder g("copies");
    row.build(g);
    CHECK(Copies(g) == row.copies);
  }
}

// --- Costs and overwriting ---

TEST_CASE("operation counts of products and reductions are the textbook's") {
  GraphBuilder g("flops");
  const auto flops = [&] {
    return NodeFlops(g.graph(), g.graph().nodes().back());
  };
  const Value a = F32(g, "a", {7, 2, 3});
  MatMul(a, F32(g, "b", {3, 5}));
  CHECK(flops() == 2 * 7 * 2 * 5 * 3);
  MatMul(F32(g, "at", {3, 2}), F32(g, "bt", {5, 3}), true, true);
  CHECK(flops() == 2 * 2 * 5 * 3);
  const Value q = F32(g, "q", {2, 10, 6, 8});
  const Value k = F32(g, "k", {2, 10, 3, 8});
  CausalAttention(q, k, k);
  CHECK(flops() == 4 * 2 * 6 * 10 * 10 * 8 / 2);
  AttentionGrad(q, k, k, q, F32(g, "l", {2, 6, 10}), q, {.causal = true});
  CHECK(flops() == 5 * 2 * 6 * 10 * 10 * 8);
  // Per score and head, of the area that is read: all, what is left of the line
  // from (0, 5) to (10, 15), a band of 4 below it, a band of 4 above and below.
  const Value longer = F32(g, "longer", {2, 15, 3, 8});
  const auto area = [&](const AttentionOptions& options) {
    Attention(q, longer, longer, options);
    return flops() / (4 * 2 * 6 * 8);
  };
  CHECK(area({}) == 150);
  CHECK(area({.causal = true}) == 150 - 50);
  CHECK(area({.causal = true, .window = 4}) == 4 * 10);
  CHECK(area({.window = 4}) == 8 * 10 - 4 * 4 / 2);
  CHECK(area({.window = 12}) == 150 - 3 * 3 / 2.0);
  CHECK(area({.window = 100}) == 150);
  // Per element: 2 for each of its window, the power, 3.
  const Value channels = F32(g, "channels", {2, 5, 3});
  LocalResponseNorm(channels, {.size = 3});
  CHECK(flops() == 30 * (2 * 3 + 16 + 3));
  LocalResponseNorm(channels, {.size = 99});
  CHECK(flops() == 30 * (2 * 9 + 16 + 3));
  // A product of 5 for each of the gates, and for each of h and c the functions, which
  // count 8, and what is between them.
  const Value gates = F32(g, "gates", {3, 7, 20});
  const Value state = F32(g, "state", {3, 5});
  const Value sequence = F32(g, "sequence", {3, 7, 5});
  LstmSequence(gates, state, state, F32(g, "recurrent", {20, 5}));
  CHECK(flops() == 420 * 2 * 5 + 105 * (5 * 8 + 8));
  LstmGrad(gates, state, F32(g, "same", {20, 5}), sequence, sequence, Value(),
           false);
  CHECK(flops() == 420 * 2 * 5 + 105 * (8 + 25));
  LstmWeightGrad(gates, state, sequence, false);
  CHECK(flops() == 420 * 2 * 5);
  ReduceSum(a, {0});
  CHECK(flops() == 42);
  g.Emit(OpKind::kSumPartials,
         Values{F32(g, "partial 0", {14, 3}), F32(g, "partial 1", {5, 2})},
         {{"dtype", DType::kF32}});
  CHECK(flops() == 42 + 10);
  Add(a, a);
  CHECK(flops() == 42);
  ScatterAdd(F32(g, "base", {9, 4}), I32(g, "i", {6}), F32(g, "u", {6, 4}));
  CHECK(flops() == 24);
  Copy(a);
  CHECK(flops() == 0);
  Transpose(a);
  CHECK(flops() == 0);
  const Shape shape = {4};
  StandIn(Only(a), DType::kF32, {&shape, 1}, 1234.5);
  CHECK(flops() == 1234.5);
}

TEST_CASE("what results may lie over, and what updates write, is as said") {
  const auto mask = [](OpKind op) { return GetOpDef(op).may_overwrite; };
  CHECK(mask(OpKind::kRelu) == 0b1);
  CHECK(mask(OpKind::kAdd) == 0b11);
  CHECK(mask(OpKind::kLess) == 0b11);
  CHECK(mask(OpKind::kWhere) == 0b111);
  CHECK(mask(OpKind::kDropout) == 0b1);
  CHECK(mask(OpKind::kCast) == 0b1);
  CHECK(mask(OpKind::kSoftmaxGrad) == 0b11);
  CHECK(mask(OpKind::kCrossEntropyGrad) == 0b1);
  CHECK(mask(OpKind::kLayerNorm) == 0b1);
  CHECK(mask(OpKind::kLayerNormGrad) == 0b10000);
  CHECK(mask(OpKind::kLayerNormGradAdd) == 0b110000);
  CHECK(mask(OpKind::kFusedElementwise) == 0b11111);
  CHECK(mask(OpKind::kBatchNorm) == 0b1);
  CHECK(mask(OpKind::kBatchNormGrad) == 0b10001);
  CHECK(mask(OpKind::kLocalResponseNorm) == 0b1);
  CHECK(mask(OpKind::kLocalResponseNormGrad) == 0b11);
  CHECK(mask(OpKind::kLstm) == 0b1);
  CHECK(mask(OpKind::kLstmGrad) == 0b1);
  CHECK(mask(OpKind::kLstmWeightGrad) == 0);
  CHECK(mask(OpKind::kRmsNorm) == 0b1);
  CHECK(mask(OpKind::kRmsNormGrad) == 0b1001);
  CHECK(mask(OpKind::kRope) == 0b1);
  CHECK(mask(OpKind::kGlu) == 0b11);
  CHECK(mask(OpKind::kGluGrad) == 0b111);
  CHECK(mask(OpKind::kScatterAdd) == 0b1);
  for (const OpKind op :
       {OpKind::kMatMul, OpKind::kGather, OpKind::kConcat, OpKind::kReduceSum,
        OpKind::kAttention, OpKind::kAttentionGrad, OpKind::kAttentionBiasGrad,
        OpKind::kAttentionQkvGrad, OpKind::kFusedMatMul,
        OpKind::kEpilogueMatMul, OpKind::kCopy, OpKind::kReshape,
        OpKind::kCrossEntropy, OpKind::kSumPartials}) {
    INFO(std::string(OpName(op)));
    CHECK(mask(op) == 0);
  }
  CHECK(GetOpDef(OpKind::kSgdUpdate).updates == 1);
  CHECK(GetOpDef(OpKind::kMomentumUpdate).updates == 2);
  CHECK(GetOpDef(OpKind::kAdamWUpdate).updates == 3);
  CHECK(GetOpDef(OpKind::kOffloadUpdate).updates == 1);
  CHECK(GetOpDef(OpKind::kAssign).updates == 1);
  CHECK(GetOpDef(OpKind::kLerpUpdate).updates == 1);
  CHECK(GetOpDef(OpKind::kSliceUpdate).updates == 1);
  CHECK(GetOpDef(OpKind::kAdd).updates == 0);
}

}  // namespace
}  // namespace stowage
