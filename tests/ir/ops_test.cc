#include "ir/ops.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/shape.h"
#include "tests/ir/typed_inputs.h"

namespace stowage {
namespace {

using Values = std::vector<Value>;

Values Only(Value value) { return {value}; }

// Every result of the last node.
Values Last(GraphBuilder& g) {
  Values values;
  for (const ValueId id : g.graph().nodes().back().results) {
    values.push_back(*g.Find(g.graph().value(id).name));
  }
  return values;
}

struct Row {
  const char* what;
  Values (*build)(GraphBuilder& g);
  std::vector<std::string> types;
};

// One row an op at least; the second test below insists.
const std::vector<Row>& Rows() {
  static const std::vector<Row> kRows = {
      {"constant",
       [](GraphBuilder& g) {
         const std::vector<std::byte> data(24);
         return Only(Constant(g, DType::kF64, {3}, data));
       },
       {"f64(3)"}},
      {"scalar constant of bools",
       [](GraphBuilder& g) {
         const std::vector<std::byte> data(1, std::byte{1});
         return Only(Constant(g, DType::kBool, {}, data));
       },
       {"bool()"}},
      {"fill",
       [](GraphBuilder& g) {
         return Values{Fill(g, -2147483648.0, DType::kI32, {2, 1}),
                       Fill(g, 255, DType::kU8, {1}),
                       Fill(g, HUGE_VAL, DType::kF16, {})};
       },
       {"i32(2, 1)", "u8(1)", "f16()"}},
      {"copy",
       [](GraphBuilder& g) {
         return Only(Copy(Bool(g, "x", {2, 3})));
       },
       {"bool(2, 3)"}},
      {"fetch",
       [](GraphBuilder& g) {
         return Only(Fetch(g.HostState("s", DType::kI16, {4})));
       },
       {"i16(4)"}},
      {"stash",
       [](GraphBuilder& g) {
         return Only(Stash(Bool(g, "x", {2, 3})));
       },
       {"bool(2, 3)"}},
      {"stash_update",
       [](GraphBuilder& g) {
         return Only(StashUpdate(g.HostState("s", DType::kF32, {2, 3}),
                                 F32(g, "x", {2, 3})));
       },
       {"f32(2, 3)"}},
      {"all_reduce",
       [](GraphBuilder& g) {
         return Only(AllReduce(F32(g, "x", {2, 3}), 4));
       },
       {"f32(2, 3)"}},
      {"reduce_scatter of blocks that do not come out even",
       [](GraphBuilder& g) {
         return Only(ReduceScatter(F32(g, "x", {2, 5}), 4));
       },
       {"f32(3)"}},
      {"all_gather",
       [](GraphBuilder& g) {
         return Only(AllGather(Bool(g, "x", {3}), 4, {2, 5}));
       },
       {"bool(2, 5)"}},
      {"all_gather_update",
       [](GraphBuilder& g) {
         return Only(
             AllGatherUpdate(g.Param("w", DType::kF32, {2, 5}, Init::Zeros()),
                             F32(g, "x", {3}), 4));
       },
       {"f32(2, 5)"}},
      {"own_block of more ranks than elements",
       [](GraphBuilder& g) {
         return Only(OwnBlock(F32(g, "x", {2, 3}), 7));
       },
       {"f32(1)"}},
      {"cast",
       [](GraphBuilder& g) {
         return Only(Cast(F32(g, "x", {2, 3}), DType::kI64));
       },
       {"i64(2, 3)"}},
      {"concat of three along a negative axis",
       [](GraphBuilder& g) {
         const Values parts = {F32(g, "a", {2, 3, 4}), F32(g, "b", {2, 1, 4}),
                               F32(g, "c", {2, 5, 4})};
         return Only(Concat(parts, -2));
       },
       {"f32(2, 9, 4)"}},
      {"concat of one",
       [](GraphBuilder& g) {
         const Values parts = {I32(g, "a", {2})};
         return Only(Concat(parts, 0));
       },
       {"i32(2)"}},
      {"gather of rows",
       [](GraphBuilder& g) {
         return Only(Gather(F32(g, "t", {100, 8}), I32(g, "i", {4, 6})));
       },
       {"f32(4, 6, 8)"}},
      {"gather of scalars by one index",
       [](GraphBuilder& g) {
         return Only(Gather(F64(g, "t", {100}), I64(g, "i", {})));
       },
       {"f64()"}},
      {"scatter_add",
       [](GraphBuilder& g) {
         return Only(ScatterAdd(F32(g, "base", {100, 8}), I64(g, "i", {4, 6}),
                                F32(g, "u", {4, 6, 8})));
       },
       {"f32(100, 8)"}},
      {"reshape",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2, 3, 4});
         return Values{Reshape(x, {6, 4}), Reshape(x, {-1}),
                       Reshape(x, {4, -1, 2}), Reshape(x, {1, 24, 1, -1})};
       },
       {"f32(6, 4)", "f32(24)", "f32(4, 3, 2)", "f32(1, 24, 1, 1)"}},
      {"reshape of a scalar",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {});
         return Values{Reshape(x, {1, -1}), Reshape(Reshape(x, {1, 1}), {})};
       },
       {"f32(1, 1)", "f32()"}},
      {"permute",
       [](GraphBuilder& g) {
         return Only(Permute(F32(g, "x", {2, 3, 4}), {2, 0, 1}));
       },
       {"f32(4, 2, 3)"}},
      {"permute with negative axes, and transpose",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2, 3, 4});
         return Values{Permute(x, {-1, 0, -2}), Transpose(x)};
       },
       {"f32(4, 2, 3)", "f32(2, 4, 3)"}},
      {"slice",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {10, 7});
         return Values{Slice(x, 0, 2, 5),     Slice(x, 0, 0, 10, 3),
                       Slice(x, 0, 1, 10, 3), Slice(x, 0, 2, 10, 3),
                       Slice(x, -1, 6, 7),    Slice(x, 1, 0, 7, INT64_MAX)};
       },
       {"f32(3, 7)", "f32(4, 7)", "f32(3, 7)", "f32(3, 7)", "f32(10, 1)",
        "f32(10, 1)"}},
      {"split",
       [](GraphBuilder& g) {
         return Split(F32(g, "x", {2, 12}), -1, {3, 8, 1});
       },
       {"f32(2, 3)", "f32(2, 8)", "f32(2, 1)"}},
      {"split into more than eight",
       [](GraphBuilder& g) {
         return Split(F32(g, "x", {9}), 0, {1, 1, 1, 1, 1, 1, 1, 1, 1});
       },
       std::vector<std::string>(9, "f32(1)")},
      {"broadcast",
       [](GraphBuilder& g) {
         return Values{BroadcastTo(F32(g, "x", {3, 1}), {2, 3, 5}),
                       BroadcastTo(I32(g, "y", {}), {4})};
       },
       {"f32(2, 3, 5)", "i32(4)"}},
      {"stop_gradient",
       [](GraphBuilder& g) {
         return Values{StopGradient(F32(g, "x", {3, 1})),
                       StopGradient(I32(g, "y", {}))};
       },
       {"f32(3, 1)", "i32()"}},
      {"float functions of one operand",
       [](GraphBuilder& g) {
         const Value x = BF16(g, "x", {2, 3});
         return Values{Exp(x),      Log(x),        Sqrt(x),    Rsqrt(x),
                       Square(x),   Reciprocal(x), Sin(x),     Cos(x),
                       Relu(x),     Silu(x),       Sigmoid(x), Tanh(x),
                       GeluTanh(x), GeluErf(x)};
       },
       std::vector<std::string>(14, "bf16(2, 3)")},
      {"more float functions of one operand",
       [](GraphBuilder& g) {
         const Value x = BF16(g, "x", {2, 3});
         return Values{Expm1(x),       Log1p(x),      Erf(x),      Floor(x),
                       Ceil(x),        Round(x),      Softplus(x), Mish(x),
                       HardSwish(x),   LeakyRelu(x),  Elu(x),      Selu(x),
                       Clamp(x, 0, 6), HardSigmoid(x)};
       },
       std::vector<std::string>(14, "bf16(2, 3)")},
      {"is_nan",
       [](GraphBuilder& g) {
         return Only(IsNan(F32(g, "x", {2, 3})));
       },
       {"bool(2, 3)"}},
      {"gradients of functions with attributes",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2});
         return Values{
             Apply(OpKind::kLeakyReluGrad, {x, x}, {{"slope", 0.5}}),
             Apply(OpKind::kEluGrad, {x, x}, {{"alpha", 1.0}, {"scale", 1.0}}),
             Apply(OpKind::kClampGrad, {x, x}, {{"min", 0.0}, {"max", 6.0}}),
             MishGrad(x, x), HardSwishGrad(x, x)};
       },
       std::vector<std::string>(5, "f32(2)")},
      {"remainder and fmod",
       [](GraphBuilder& g) {
         const Value a = F64(g, "a", {2, 3});
         return Values{Remainder(a, a), Fmod(a, a)};
       },
       std::vector<std::string>(2, "f64(2, 3)")},
      {"neg, abs and sign, also of integers",
       [](GraphBuilder& g) {
         const Value x = I32(g, "x", {4});
         return Values{Neg(x), Abs(x), Sign(x)};
       },
       std::vector<std::string>(3, "i32(4)")},
      {"logical ops",
       [](GraphBuilder& g) {
         const Value x = Bool(g, "x", {4});
         return Values{LogicalNot(x), LogicalAnd(x, x), LogicalOr(x, x)};
       },
       std::vector<std::string>(3, "bool(4)")},
      {"arithmetic, also of integers",
       [](GraphBuilder& g) {
         const Value a = I64(g, "a", {2, 3});
         const Value b = I64(g, "b", {2, 3});
         return Values{Add(a, b), Sub(a, b), Mul(a, b), Maximum(a, b),
                       Minimum(a, b)};
       },
       std::vector<std::string>(5, "i64(2, 3)")},
      {"div and pow",
       [](GraphBuilder& g) {
         const Value a = F64(g, "a", {2, 3});
         return Values{Div(a, a), Pow(a, a)};
       },
       std::vector<std::string>(2, "f64(2, 3)")},
      {"comparisons",
       [](GraphBuilder& g) {
         const Value a = F32(g, "a", {2});
         const Value b = F32(g, "b", {2});
         return Values{Equal(a, b),     NotEqual(a, b), Less(a, b),
                       LessEqual(a, b), Greater(a, b),  GreaterEqual(a, b)};
       },
       std::vector<std::string>(6, "bool(2)")},
      {"gradients of functions of one operand",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2});
         const Value dy = F32(g, "dy", {2});
         return Values{ReluGrad(x, dy),     SigmoidGrad(x, dy),
                       TanhGrad(x, dy),     SiluGrad(x, dy),
                       GeluTanhGrad(x, dy), GeluErfGrad(x, dy)};
       },
       std::vector<std::string>(6, "f32(2)")},
      {"where, of integers",
       [](GraphBuilder& g) {
         return Only(Where(Bool(g, "c", {2, 3}), I32(g, "a", {2, 3}),
                           I32(g, "b", {2, 3})));
       },
       {"i32(2, 3)"}},
      {"where, all broadcast",
       [](GraphBuilder& g) {
         return Only(Where(Bool(g, "c", {2, 1, 1}), F32(g, "a", {3, 1}),
                           F32(g, "b", {4})));
       },
       {"f32(2, 3, 4)"}},
      {"dropout",
       [](GraphBuilder& g) {
         return Only(Dropout(F32(g, "x", {2, 3}), I64(g, "seed", {}),
                             I64(g, "step", {}), 0.1, 7));
       },
       {"f32(2, 3)"}},
      {"reductions",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2, 3, 4});
         return Values{ReduceSum(x), ReduceSum(x, {}, true),
                       ReduceMean(x, {-1, 0}), ReduceMax(x, {1}, true)};
       },
       {"f32()", "f32(1, 1, 1)", "f32(3)", "f32(2, 1, 4)"}},
      {"sum of a scalar, of integers",
       [](GraphBuilder& g) {
         return Values{ReduceSum(F32(g, "x", {})),
                       ReduceMax(I32(g, "y", {3}), {0})};
       },
       {"f32()", "i32()"}},
      {"sum_squares",
       [](GraphBuilder& g) {
         return Values{SumSquares(F32(g, "x", {2, 3})),
                       SumSquares(F64(g, "y", {2, 3})),
                       SumSquares(BF16(g, "z", {2, 3}))};
       },
       {"f32()", "f64()", "f32()"}},
      {"arg_max",
       [](GraphBuilder& g) {
         return Only(ArgMax(F64(g, "x", {2, 3, 4})));
       },
       {"i32(2, 3)"}},
      {"pooling",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2, 3, 7, 8});
         const Value y = MaxPool(
             x, {.kernel = {2, 3}, .stride = {2, 2}, .ceil_mode = true});
         const Attrs of_max = g.graph().nodes().back().attrs;
         const Value mean = AvgPool(x, {.kernel = {2, 3}});
         Attrs of_mean = {{"shape", Axes{2, 3, 7, 8}}};
         for (const auto& [name, value] :
              g.graph().nodes().back().attrs.entries()) {
           of_mean.Set(name, value);
         }
         return Values{y, Apply(OpKind::kMaxPoolGrad, {x, y}, of_max), mean,
                       Apply(OpKind::kAvgPoolGrad, {mean}, of_mean)};
       },
       {"f32(2, 3, 4, 4)", "f32(2, 3, 7, 8)", "f32(2, 3, 3, 2)",
        "f32(2, 3, 7, 8)"}},
      {"iota",
       [](GraphBuilder& g) {
         return Values{Iota(g, DType::kU8, 255, -5, 52),
                       Iota(g, DType::kBF16, 0.5, 0, 1)};
       },
       {"u8(52)", "bf16(1)"}},
      {"along axes",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2, 3, 4});
         const Value at = I64(g, "at", {2, 7, 4});
         const TopKResults top = TopK(x, 2);
         const TopKResults all = Sort(I32(g, "i", {5}));
         return Values{CumSum(x, -1),
                       TakeAlongAxis(x, at, 1),
                       PutAdd(x, at, F32(g, "updates", {2, 7, 4}), -2),
                       top.values,
                       top.indices,
                       all.values,
                       all.indices};
       },
       {"f32(2, 3, 4)", "f32(2, 7, 4)", "f32(2, 3, 4)", "f32(2, 3, 2)",
        "i32(2, 3, 2)", "i32(5)", "i32(5)"}},
      {"random numbers",
       [](GraphBuilder& g) {
         const Value seed = I64(g, "seed", {});
         const Value step = I64(g, "step", {});
         return Values{RandomUniform(seed, step, {2, 3}, DType::kF16, 1),
                       RandomNormal(seed, step, {}, DType::kF64, 2)};
       },
       {"f16(2, 3)", "f64()"}},
      {"masks and tiles",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2, 3});
         return Values{OneHot(I32(g, "i", {4, 2}), 5, DType::kBool), Tril(x),
                       Triu(x, 1), Tile(x, {2, 3})};
       },
       {"bool(4, 2, 5)", "f32(2, 3)", "f32(2, 3)", "f32(4, 9)"}},
      {"pad",
       [](GraphBuilder& g) {
         const Value y =
             Pad(F32(g, "x", {2, 3}), {0, 1}, {4, 1}, PadMode::kEdge);
         return Values{y, Apply(OpKind::kPadGrad, {y},
                                {{"before", Axes{0, 1}},
                                 {"after", Axes{4, 1}},
                                 {"mode", int64_t{2}}})};
       },
       {"f32(6, 5)", "f32(2, 3)"}},
      {"resize",
       [](GraphBuilder& g) {
         const Value y = Resize(F32(g, "x", {2, 3, 4, 5}), {8, 3});
         return Values{y, Apply(OpKind::kResizeGrad, {y},
                                {{"shape", Axes{2, 3, 4, 5}},
                                 {"mode", int64_t{1}},
                                 {"align_corners", int64_t{0}}})};
       },
       {"f32(2, 3, 8, 3)", "f32(2, 3, 4, 5)"}},
      {"matmul of matrices, all four ways",
       [](GraphBuilder& g) {
         const Value a = F32(g, "a", {2, 3});
         const Value at = F32(g, "at", {3, 2});
         const Value b = F32(g, "b", {3, 5});
         const Value bt = F32(g, "bt", {5, 3});
         return Values{MatMul(a, b), MatMul(at, b, true),
                       MatMul(a, bt, false, true), MatMul(at, bt, true, true)};
       },
       std::vector<std::string>(4, "f32(2, 5)")},
      {"matmul of a batch with one matrix",
       [](GraphBuilder& g) {
         const Value a = F32(g, "a", {7, 6, 2, 3});
         return Values{MatMul(a, F32(g, "b", {3, 5})),
                       MatMul(a, F32(g, "bt", {5, 3}), false, true)};
       },
       std::vector<std::string>(2, "f32(7, 6, 2, 5)")},
      {"matmul of batches, and broadcast ones",
       [](GraphBuilder& g) {
         const Value a = F32(g, "a", {7, 6, 2, 3});
         return Values{MatMul(a, F32(g, "b", {7, 6, 3, 5})),
                       MatMul(a, F32(g, "c", {7, 1, 3, 5})),
                       MatMul(a, F32(g, "d", {6, 3, 5})),
                       MatMul(F32(g, "e", {2, 3}), F32(g, "f", {7, 6, 3, 5}))};
       },
       std::vector<std::string>(4, "f32(7, 6, 2, 5)")},
      {"softmax and log_softmax along any axis",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2, 3, 4});
         return Values{Softmax(x), Softmax(x, 0), LogSoftmax(x),
                       LogSoftmax(x, -2)};
       },
       std::vector<std::string>(4, "f32(2, 3, 4)")},
      {"gradients of softmax and log_softmax",
       [](GraphBuilder& g) {
         const Value y = F32(g, "y", {2, 3});
         const Value dy = F32(g, "dy", {2, 3});
         return Values{SoftmaxGrad(y, dy), LogSoftmaxGrad(y, dy)};
       },
       std::vector<std::string>(2, "f32(2, 3)")},
      {"cross_entropy",
       [](GraphBuilder& g) {
         CrossEntropy(F32(g, "logits", {4, 6, 10}), I32(g, "labels", {4, 6}));
         return Last(g);
       },
       {"f32()", "f32(4, 6)"}},
      {"cross_entropy in bf16 keeps statistics in f32",
       [](GraphBuilder& g) {
         CrossEntropy(BF16(g, "logits", {4, 10}), I32(g, "labels", {4}));
         return Last(g);
       },
       {"f32()", "f32(4)"}},
      {"cross_entropy in f64, of one row",
       [](GraphBuilder& g) {
         CrossEntropy(F64(g, "logits", {10}), I64(g, "labels", {}));
         return Last(g);
       },
       {"f64()", "f64()"}},
      {"cross_entropy_grad",
       [](GraphBuilder& g) {
         return Only(CrossEntropyGrad(BF16(g, "logits", {4, 10}),
                                      I32(g, "labels", {4}), F32(g, "l", {4}),
                                      F32(g, "d", {})));
       },
       {"bf16(4, 10)"}},
      {"linear_cross_entropy",
       [](GraphBuilder& g) {
         LinearCrossEntropy(F32(g, "x", {4, 6, 8}), F32(g, "w", {10, 8}),
                            I32(g, "labels", {4, 6}), 7);
         return Last(g);
       },
       {"f32()", "f32(4, 6)"}},
      {"linear_cross_entropy in f64, of one row",
       [](GraphBuilder& g) {
         LinearCrossEntropy(F64(g, "x", {8}), F64(g, "w", {10, 8}),
                            I64(g, "labels", {}), 1);
         return Last(g);
       },
       {"f64()", "f64()"}},
      {"linear_cross_entropy_grad in bf16 keeps the loss in f32",
       [](GraphBuilder& g) {
         const LinearCrossEntropyGrads grads = LinearCrossEntropyGrad(
             BF16(g, "x", {4, 8}), BF16(g, "w", {10, 8}), I64(g, "labels", {4}),
             F32(g, "dloss", {}), 2);
         return Values{grads.loss, grads.dx, grads.dw};
       },
       {"f32()", "bf16(4, 8)", "bf16(10, 8)"}},
      {"linear_cross_entropy of a frozen matrix in blocks, with weights",
       [](GraphBuilder& g) {
         const Value x = BF16(g, "x", {4, 64});
         const Value w = g.Input("w", DType::kU8, {10, 2 * 20});
         const Value labels = I64(g, "labels", {4});
         const LinearCrossEntropyOptions options = {
             .weights = F32(g, "weights", {4}), .blocks = WeightType::kQ4_1};
         const LinearCrossEntropyGrads grads = LinearCrossEntropyGrad(
             x, w, labels, F32(g, "dloss", {}), 2, options, false);
         return Values{LinearCrossEntropy(x, w, labels, 2, options), grads.loss,
                       grads.dx};
       },
       {"f32()", "f32()", "bf16(4, 64)"}},
      {"quantized_matmul",
       [](GraphBuilder& g) {
         const Value w = g.Input("w", DType::kU8, {10, 3 * 34});
         return Values{
             QuantizedMatMul(F32(g, "x", {4, 6, 96}), w, WeightType::kQ8_0),
             QuantizedMatMul(BF16(g, "dy", {4, 10}), w, WeightType::kQ8_0,
                             false)};
       },
       {"f32(4, 6, 10)", "bf16(4, 96)"}},
      {"quantized_gather",
       [](GraphBuilder& g) {
         return Only(QuantizedGather(g.Input("t", DType::kU8, {10, 210}),
                                     I64(g, "indices", {4, 2}),
                                     WeightType::kQ6_K));
       },
       {"f32(4, 2, 256)"}},
      {"mean_squared_error",
       [](GraphBuilder& g) {
         return Only(
             MeanSquaredError(F32(g, "p", {4, 2}), F32(g, "t", {4, 2})));
       },
       {"f32()"}},
      {"layer_norm",
       [](GraphBuilder& g) {
         LayerNorm(F32(g, "x", {4, 6, 8}), F32(g, "gamma", {8}),
                   F32(g, "beta", {8}));
         return Last(g);
       },
       {"f32(4, 6, 8)", "f32(4, 6)", "f32(4, 6)"}},
      {"layer_norm in bf16 keeps statistics in f32",
       [](GraphBuilder& g) {
         LayerNorm(BF16(g, "x", {4, 8}), BF16(g, "gamma", {8}),
                   BF16(g, "beta", {8}));
         return Last(g);
       },
       {"bf16(4, 8)", "f32(4)", "f32(4)"}},
      {"batch_norm of pictures in f16 keeps statistics in f32",
       [](GraphBuilder& g) {
         const BatchNormResults r =
             BatchNorm(g.Input("x", DType::kF16, {4, 8, 5, 5}),
                       g.Param("gamma", DType::kF16, {8}),
                       g.Param("beta", DType::kF16, {8}));
         return Values{r.y, r.mean, r.variance};
       },
       {"f16(4, 8, 5, 5)", "f32(8)", "f32(8)"}},
      {"batch_norm_grad of rows",
       [](GraphBuilder& g) {
         const BatchNormGrads grads = BatchNormGrad(
             F64(g, "x", {4, 8}), F64(g, "gamma", {8}), F64(g, "mean", {8}),
             F64(g, "variance", {8}), F64(g, "dy", {4, 8}), 1e-5);
         return Values{grads.dx, grads.dgamma, grads.dbeta};
       },
       {"f64(4, 8)", "f64(8)", "f64(8)"}},
      {"local_response_norm",
       [](GraphBuilder& g) {
         const Value x = g.Input("x", DType::kF16, {2, 3, 4, 5});
         const Value y = LocalResponseNorm(x);
         return Values{y, Apply(OpKind::kLocalResponseNormGrad, {x, y},
                                g.graph().nodes().back().attrs)};
       },
       {"f16(2, 3, 4, 5)", "f16(2, 3, 4, 5)"}},
      {"lstm",
       [](GraphBuilder& g) {
         const auto f64 = [&](const char* name, const Shape& shape) {
           return F64(g, name, shape);
         };
         LstmSequence(f64("gates", {3, 7, 20}), f64("h0", {3, 5}),
                      f64("c0", {3, 5}), f64("w", {20, 5}));
         return Last(g);
       },
       {"f64(3, 7, 20)", "f64(3, 7, 5)", "f64(3, 7, 5)"}},
      {"lstm_grad and lstm_weight_grad",
       [](GraphBuilder& g) {
         const Value c = BF16(g, "c", {3, 7, 5});
         const Value state = BF16(g, "state", {3, 5});
         const Value gates = BF16(g, "gates", {3, 7, 20});
         const LstmGrads grads = LstmGrad(gates, state, BF16(g, "w", {20, 5}),
                                          c, c, c, /*reverse=*/true);
         return Values{grads.dgates, grads.dh0, grads.dc0,
                       LstmWeightGrad(gates, state, c, /*reverse=*/true)};
       },
       {"bf16(3, 7, 20)", "bf16(3, 5)", "bf16(3, 5)", "bf16(20, 5)"}},
      {"rms_norm in f16 keeps its statistic in f32",
       [](GraphBuilder& g) {
         RmsNorm(g.Input("x", DType::kF16, {4, 6, 8}),
                 g.Input("gamma", DType::kF16, {8}));
         return Last(g);
       },
       {"f16(4, 6, 8)", "f32(4, 6)"}},
      {"rms_norm_grad",
       [](GraphBuilder& g) {
         const RmsNormGrads grads =
             RmsNormGrad(F64(g, "x", {4, 6, 8}), F64(g, "gamma", {8}),
                         F64(g, "rstd", {4, 6}), F64(g, "dy", {4, 6, 8}));
         return Values{grads.dx, grads.dgamma};
       },
       {"f64(4, 6, 8)", "f64(8)"}},
      {"rope at positions of each example",
       [](GraphBuilder& g) {
         return Only(Rope(BF16(g, "q", {2, 5, 4, 8}), I32(g, "at", {2, 5}),
                          {.dims = 6}));
       },
       {"bf16(2, 5, 4, 8)"}},
      {"glu",
       [](GraphBuilder& g) {
         return Only(GeGlu(BF16(g, "gate", {4, 8}), BF16(g, "up", {4, 8})));
       },
       {"bf16(4, 8)"}},
      {"glu_grad",
       [](GraphBuilder& g) {
         const GluGrads grads =
             GluGrad(F32(g, "gate", {4, 8}), F32(g, "up", {4, 8}),
                     F32(g, "dy", {4, 8}), GluActivation::kGeluErf);
         return Values{grads.dgate, grads.dup};
       },
       {"f32(4, 8)", "f32(4, 8)"}},
      {"layer_norm_grad",
       [](GraphBuilder& g) {
         const LayerNormGrads grads =
             LayerNormGrad(F64(g, "x", {4, 6, 8}), F64(g, "gamma", {8}),
                           F64(g, "mean", {4, 6}), F64(g, "rstd", {4, 6}),
                           F64(g, "dy", {4, 6, 8}));
         return Values{grads.dx, grads.dgamma, grads.dbeta};
       },
       {"f64(4, 6, 8)", "f64(8)", "f64(8)"}},
      {"layer_norm_grad_add",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {4, 8});
         const Value gamma = F32(g, "gamma", {8});
         const Value rows = F32(g, "mean", {4});
         return g.Emit(OpKind::kLayerNormGradAdd,
                       Values{x, gamma, rows, rows, x, x}, {});
       },
       {"f32(4, 8)", "f32(8)", "f32(8)"}},
      {"attention_qkv_grad",
       [](GraphBuilder& g) {
         const Value q = BF16(g, "q", {2, 5, 6, 8});
         const Value k = BF16(g, "k", {2, 5, 3, 8});
         return g.Emit(
             OpKind::kAttentionQkvGrad,
             Values{q, k, k, q, F32(g, "l", {2, 6, 5}), q},
             {{"scale", 0.5}, {"causal", int64_t{1}}, {"window", int64_t{0}}});
       },
       {"bf16(2, 5, 96)"}},
      {"attention of more keys than queries",
       [](GraphBuilder& g) {
         Attention(F64(g, "q", {2, 5, 6, 8}), F64(g, "k", {2, 9, 1, 8}),
                   F64(g, "v", {2, 9, 1, 8}),
                   {.window = 4, .key_lengths = I32(g, "n", {2})});
         return Last(g);
       },
       {"f64(2, 5, 6, 8)", "f64(2, 6, 5)"}},
      {"attention with grouped heads",
       [](GraphBuilder& g) {
         CausalAttention(F32(g, "q", {2, 5, 6, 8}), F32(g, "k", {2, 5, 3, 8}),
                         F32(g, "v", {2, 5, 3, 8}));
         return Last(g);
       },
       {"f32(2, 5, 6, 8)", "f32(2, 6, 5)"}},
      {"attention_grad",
       [](GraphBuilder& g) {
         const AttentionGrads grads =
             AttentionGrad(F32(g, "q", {2, 5, 6, 8}), F32(g, "k", {2, 5, 3, 8}),
                           F32(g, "v", {2, 5, 3, 8}), F32(g, "o", {2, 5, 6, 8}),
                           F32(g, "l", {2, 6, 5}), F32(g, "d_o", {2, 5, 6, 8}));
         return Values{grads.dq, grads.dk, grads.dv};
       },
       {"f32(2, 5, 6, 8)", "f32(2, 5, 3, 8)", "f32(2, 5, 3, 8)"}},
      {"attention with a bias",
       [](GraphBuilder& g) {
         Attention(BF16(g, "q", {2, 5, 6, 8}), BF16(g, "k", {2, 9, 1, 8}),
                   BF16(g, "v", {2, 9, 1, 8}),
                   {.key_lengths = I32(g, "n", {2}),
                    .bias = BF16(g, "bias", {1, 6, 1, 9})});
         return Last(g);
       },
       {"bf16(2, 5, 6, 8)", "f32(2, 6, 5)"}},
      {"attention_bias_grad",
       [](GraphBuilder& g) {
         const Value bias = F32(g, "bias", {2, 1, 5, 7});
         return Only(AttentionBiasGrad(
             F32(g, "q", {2, 5, 6, 8}), F32(g, "k", {2, 7, 3, 8}),
             F32(g, "v", {2, 7, 3, 8}), F32(g, "o", {2, 5, 6, 8}),
             F32(g, "l", {2, 6, 5}), F32(g, "d_o", {2, 5, 6, 8}),
             {.key_lengths = I32(g, "n", {2}), .bias = bias}));
       },
       {"f32(2, 1, 5, 7)"}},
      {"assign",
       [](GraphBuilder& g) {
         return Only(
             Assign(g.State("s", DType::kI32, {2, 3}), I32(g, "x", {2, 3})));
       },
       {"i32(2, 3)"}},
      {"lerp_update by a number",
       [](GraphBuilder& g) {
         return Only(LerpUpdate(g.State("s", DType::kF32, {2, 3}),
                                F32(g, "x", {2, 3}), F32(g, "weight", {})));
       },
       {"f32(2, 3)"}},
      {"slice_update along an axis from the end",
       [](GraphBuilder& g) {
         return Only(SliceUpdate(g.State("s", DType::kF32, {2, 3}),
                                 F32(g, "x", {2, 1}), -1, 2));
       },
       {"f32(2, 3)"}},
      {"conv and its gradients",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2, 6, 9, 8});
         const Value w = F32(g, "w", {4, 3, 3, 2});
         const ConvOptions options = {.stride = 2, .groups = 2};
         const Value y = Conv(x, w, options);
         return Values{
             y, ConvTranspose(y, w, {.stride = 2, .groups = 2, .size = {9, 8}}),
             ConvWeightGrad(x, y, {3, 2}, options)};
       },
       {"f32(2, 4, 4, 4)", "f32(2, 6, 9, 8)", "f32(4, 3, 3, 2)"}},
      {"sgd_update",
       [](GraphBuilder& g) {
         const Value w = g.Param("w", DType::kF32, {2, 3});
         return Only(SgdUpdate(w, F32(g, "dw", {2, 3}), F32(g, "lr", {}),
                               Value(), 0.1));
       },
       {"f32(2, 3)"}},
      {"momentum_update with a clip factor",
       [](GraphBuilder& g) {
         const MomentumResults r = MomentumUpdate(
             g.Param("w", DType::kF32, {2, 3}),
             g.State("velocity", DType::kF32, {2, 3}), F32(g, "dw", {2, 3}),
             F32(g, "lr", {}), F32(g, "clip", {}), 0.9, 0);
         return Values{r.w, r.velocity};
       },
       {"f32(2, 3)", "f32(2, 3)"}},
      {"nesterov_update with a clip factor",
       [](GraphBuilder& g) {
         const MomentumResults r = NesterovUpdate(
             g.Param("w", DType::kF32, {2, 3}),
             g.State("velocity", DType::kF32, {2, 3}), F32(g, "dw", {2, 3}),
             F32(g, "lr", {}), F32(g, "clip", {}), 0.9, 0);
         return Values{r.w, r.velocity};
       },
       {"f32(2, 3)", "f32(2, 3)"}},
      {"rmsprop_update",
       [](GraphBuilder& g) {
         const MeanSquareResults r = RmsPropUpdate(
             g.Param("w", DType::kF32, {2, 3}),
             g.State("v", DType::kF32, {2, 3}), F32(g, "dw", {2, 3}),
             F32(g, "lr", {}), Value(), 0.9, 1e-8, 0);
         return Values{r.w, r.v};
       },
       {"f32(2, 3)", "f32(2, 3)"}},
      {"adagrad_update",
       [](GraphBuilder& g) {
         const MeanSquareResults r = AdagradUpdate(
             g.Param("w", DType::kF64, {2}), g.State("v", DType::kF64, {2}),
             F64(g, "dw", {2}), F32(g, "lr", {}), Value(), 1e-10, 0);
         return Values{r.w, r.v};
       },
       {"f64(2)", "f64(2)"}},
      {"adam_update",
       [](GraphBuilder& g) {
         const AdamWResults r = AdamUpdate(
             g.Param("w", DType::kF64, {2}), g.State("m", DType::kF64, {2}),
             g.State("v", DType::kF64, {2}), F64(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), Value(), 0.9, 0.999, 1e-8,
             0.01);
         return Values{r.w, r.m, r.v};
       },
       {"f64(2)", "f64(2)", "f64(2)"}},
      {"adamw_update",
       [](GraphBuilder& g) {
         const AdamWResults r = AdamWUpdate(
             g.Param("w", DType::kF64, {2}), g.State("m", DType::kF64, {2}),
             g.State("v", DType::kF64, {2}), F64(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), Value(), 0.9, 0.999, 1e-8,
             0.01);
         return Values{r.w, r.m, r.v};
       },
       {"f64(2)", "f64(2)", "f64(2)"}},
      {"adamw_update with a clip factor",
       [](GraphBuilder& g) {
         const AdamWResults r = AdamWUpdate(
             g.Param("w", DType::kF32, {2}), g.State("m", DType::kF32, {2}),
             g.State("v", DType::kF32, {2}), F32(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), F32(g, "clip", {}), 0.9,
             0.999, 1e-8, 0.01);
         return Values{r.w, r.m, r.v};
       },
       {"f32(2)", "f32(2)", "f32(2)"}},
      {"adamw_split_update with a clip factor",
       [](GraphBuilder& g) {
         const AdamWSplitResults r = AdamWSplitUpdate(
             g.Param("w", DType::kBF16, {2}),
             g.State("delta", DType::kI16, {2}), g.State("m", DType::kF32, {2}),
             g.State("v", DType::kF32, {2}), BF16(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), F32(g, "clip", {}), 0.9,
             0.999, 1e-8, 0.01);
         return Values{r.w, r.delta, r.m, r.v};
       },
       {"bf16(2)", "i16(2)", "f32(2)", "f32(2)"}},
      {"adamw_split_update of 24 bits",
       [](GraphBuilder& g) {
         const AdamWSplitResults r = AdamWSplitUpdate(
             g.Param("w", DType::kBF16, {2}), g.State("delta", DType::kU8, {2}),
             g.State("m", DType::kF32, {2}), g.State("v", DType::kF32, {2}),
             BF16(g, "dw", {2}), F32(g, "lr", {}), I64(g, "step", {}), Value(),
             0.9, 0.999, 1e-8, 0.01);
         return Values{r.w, r.delta, r.m, r.v};
       },
       {"bf16(2)", "u8(2)", "f32(2)", "f32(2)"}},
      {"adamw_bf16_update",
       [](GraphBuilder& g) {
         const AdamWResults r = AdamWBf16Update(
             g.Param("w", DType::kF32, {2}), g.State("m", DType::kBF16, {2}),
             g.State("v", DType::kBF16, {2}), F32(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), I64(g, "seed", {}),
             F32(g, "clip", {}), {}, 1);
         return Values{r.w, r.m, r.v};
       },
       {"f32(2)", "bf16(2)", "bf16(2)"}},
      {"adamw_bf16_split_update",
       [](GraphBuilder& g) {
         const AdamWSplitResults r = AdamWBf16SplitUpdate(
             g.Param("w", DType::kBF16, {2}), g.State("delta", DType::kU8, {2}),
             g.State("m", DType::kBF16, {2}), g.State("v", DType::kBF16, {2}),
             BF16(g, "dw", {2}), F32(g, "lr", {}), I64(g, "step", {}),
             I64(g, "seed", {}), Value(), {}, 1);
         return Values{r.w, r.delta, r.m, r.v};
       },
       {"bf16(2)", "u8(2)", "bf16(2)", "bf16(2)"}},
      {"adamw_8bit_update",
       [](GraphBuilder& g) {
         const Shape shape{3, 171};  // 513 elements
         const AdamW8BitResults r = AdamW8BitUpdate(
             g.Param("w", DType::kF32, shape),
             {g.State("m", DType::kU8, shape), g.State("v", DType::kU8, shape),
              g.State("m_scale", DType::kF32, {3}),
              g.State("v_scale", DType::kF32, {3})},
             F32(g, "dw", shape), F32(g, "lr", {}), I64(g, "step", {}), Value(),
             {}, MomentCode::kDynamic);
         const auto& [m, v, m_scale, v_scale] = r.moments;
         return Values{r.w, m, v, m_scale, v_scale};
       },
       {"f32(3, 171)", "u8(3, 171)", "u8(3, 171)", "f32(3)", "f32(3)"}},
      {"adamw_8bit_split_update",
       [](GraphBuilder& g) {
         const AdamW8BitResults r = AdamW8BitSplitUpdate(
             g.Param("w", DType::kBF16, {256}),
             g.State("delta", DType::kI16, {256}),
             {g.State("m", DType::kU8, {256}), g.State("v", DType::kU8, {256}),
              g.State("m_scale", DType::kF32, {1}),
              g.State("v_scale", DType::kF32, {1})},
             BF16(g, "dw", {256}), F32(g, "lr", {}), I64(g, "step", {}),
             F32(g, "clip", {}), {}, MomentCode::kCompanded);
         const auto& [m, v, m_scale, v_scale] = r.moments;
         return Values{r.w, r.delta, m, v, m_scale, v_scale};
       },
       {"bf16(256)", "i16(256)", "u8(256)", "u8(256)", "f32(1)", "f32(1)"}},
      {"momentum_bf16_update",
       [](GraphBuilder& g) {
         const MomentumResults r = MomentumBf16Update(
             g.Param("w", DType::kF32, {2}), g.State("u", DType::kBF16, {2}),
             F32(g, "dw", {2}), F32(g, "lr", {}), I64(g, "step", {}),
             I64(g, "seed", {}), Value(), 0.9, 0, 1);
         return Values{r.w, r.velocity};
       },
       {"f32(2)", "bf16(2)"}},
      {"momentum_bf16_split_update",
       [](GraphBuilder& g) {
         const MomentumSplitResults r = MomentumBf16SplitUpdate(
             g.Param("w", DType::kBF16, {2}),
             g.State("delta", DType::kI16, {2}),
             g.State("u", DType::kBF16, {2}), BF16(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), I64(g, "seed", {}), Value(),
             0.9, 0, 1);
         return Values{r.w, r.delta, r.velocity};
       },
       {"bf16(2)", "i16(2)", "bf16(2)"}},
      {"stand_in of two operands, for three results",
       [](GraphBuilder& g) {
         const Value operands[] = {F32(g, "x", {2, 8, 8, 3}),
                                   BF16(g, "w", {5})};
         const Shape shapes[] = {{2, 4, 4, 5}, {5}, {}};
         return StandIn(operands, DType::kF16, shapes, 1e6);
       },
       {"f16(2, 4, 4, 5)", "f16(5)", "f16()"}},
  };
  return kRows;
}

TEST_CASE("result types follow from operands") {
  for (const Row& row : Rows()) {
    INFO(row.what);
    GraphBuilder g("rows");
    std::vector<std::string> types;
    for (const Value& value : row.build(g)) {
      REQUIRE(value.ok());
      types.push_back(value.type().ToString());
    }
    CHECK(types == row.types);
    CHECK(g.Finish().ok());
  }
}

TEST_CASE("every op is in the table of types") {
  std::set<OpKind> seen;
  for (const Row& row : Rows()) {
    GraphBuilder g("rows");
    row.build(g);
    for (const Node& node : g.graph().nodes()) seen.insert(node.op);
  }
  // tests/ir/control_flow_test.cc
  seen.insert(OpKind::kLoop);
  seen.insert(OpKind::kCond);
  // tests/ir/ops_fused_test.cc
  seen.insert(OpKind::kFusedElementwise);
  seen.insert(OpKind::kFusedMatMul);
  for (int i = 0; i < kNumOps; ++i) {
    const auto op = static_cast<OpKind>(i);
    INFO(std::string(OpName(op)));
    CHECK(seen.contains(op));
  }
}

// Some value of another kind than `value`.
AttrValue OtherKind(const AttrValue& value) {
  if (std::holds_alternative<std::string>(value)) return int64_t{1};
  return std::string("bytes");
}

TEST_CASE(
    "attributes that are missing, mistyped, unknown or doubled are errors") {
  for (const Row& row : Rows()) {
    GraphBuilder g("rows");
    row.build(g);
    const Graph& graph = g.graph();
    for (const Node& node : graph.nodes()) {
      INFO(std::string(OpName(node.op)));
      OpArgsStorage storage;
      const OpArgs good = MakeOpArgs(graph, node, &storage);
      const auto infers = [&](const Attrs& attrs) {
        return GetOpDef(node.op)
            .infer(OpArgs{good.op, good.types, good.names, attrs})
            .ok();
      };
      REQUIRE(infers(node.attrs));
      Attrs unknown = node.attrs;
      unknown.Set("colour", int64_t{1});
      CHECK_FALSE(infers(unknown));
      const auto& entries = node.attrs.entries();
      for (size_t bad = 0; bad < entries.size(); ++bad) {
        INFO(entries[bad].first);
        Attrs missing;
        for (size_t i = 0; i < entries.size(); ++i) {
          if (i != bad) missing.Set(entries[i].first, entries[i].second);
        }
        CHECK_FALSE(infers(missing));
        Attrs mistyped = node.attrs;
        mistyped.Set(entries[bad].first, OtherKind(entries[bad].second));
        CHECK_FALSE(infers(mistyped));
        const Attrs doubled = entries.size() == 1
                                  ? Attrs{entries[0], entries[0]}
                                  : Attrs{entries[0], entries[1], entries[0]};
        CHECK_FALSE(infers(doubled));
      }
    }
  }
}

TEST_CASE("elementwise ops take the element types they can compute") {
  const std::set<DType> floats = {DType::kF32, DType::kF64, DType::kF16,
                                  DType::kBF16};
  std::set<DType> numbers = floats;
  numbers.insert({DType::kI16, DType::kI32, DType::kI64, DType::kU8});
  std::set<DType> all = numbers;
  all.insert(DType::kBool);
  struct OpRow {
    std::vector<OpKind> ops;
    std::set<DType> taken;
  };
  const OpRow unary[] = {
      {{OpKind::kNeg, OpKind::kAbs, OpKind::kSign}, numbers},
      {{OpKind::kExp,      OpKind::kLog,      OpKind::kSqrt,
        OpKind::kRsqrt,    OpKind::kSquare,   OpKind::kReciprocal,
        OpKind::kSin,      OpKind::kCos,      OpKind::kRelu,
        OpKind::kSilu,     OpKind::kSigmoid,  OpKind::kTanh,
        OpKind::kGeluTanh, OpKind::kGeluErf,  OpKind::kExpm1,
        OpKind::kLog1p,    OpKind::kErf,      OpKind::kFloor,
        OpKind::kCeil,     OpKind::kRound,    OpKind::kSoftplus,
        OpKind::kMish,     OpKind::kHardSwish},
       floats},
      {{OpKind::kLogicalNot}, {DType::kBool}},
      {{OpKind::kCopy, OpKind::kStash}, all},
  };
  const OpRow binary[] = {
      {{OpKind::kAdd, OpKind::kSub, OpKind::kMul, OpKind::kMaximum,
        OpKind::kMinimum, OpKind::kLess, OpKind::kLessEqual, OpKind::kGreater,
        OpKind::kGreaterEqual},
       numbers},
      {{OpKind::kEqual, OpKind::kNotEqual}, all},
      {{OpKind::kDiv, OpKind::kPow, OpKind::kReluGrad, OpKind::kSigmoidGrad,
        OpKind::kTanhGrad, OpKind::kSiluGrad, OpKind::kGeluTanhGrad,
        OpKind::kGeluErfGrad, OpKind::kMishGrad, OpKind::kHardSwishGrad,
        OpKind::kRemainder, OpKind::kFmod},
       floats},
      {{OpKind::kLogicalAnd, OpKind::kLogicalOr}, {DType::kBool}},
  };
  const std::string_view names[] = {"a", "b"};
  const Attrs none;
  const auto check = [&](std::span<const OpRow> rows, size_t operands) {
    for (const OpRow& row : rows) {
      for (const OpKind op : row.ops) {
        for (const DType dtype : kAllDTypes) {
          INFO(std::string(OpName(op))
               << " of " << std::string(DTypeName(dtype)));
          const std::vector<TensorType> types(operands, {dtype, {2}});
          const OpArgs args = {op, types, std::span(names).first(operands),
                               none};
          CHECK(GetOpDef(op).infer(args).ok() == row.taken.contains(dtype));
        }
      }
    }
  };
  check(unary, 1);
  check(binary, 2);
}

TEST_CASE("a stand_in's attributes must say results that can be") {
  struct BadRow {
    std::vector<int64_t> ranks, dims;
    double flops;
    const char* message;
  };
  const BadRow rows[] = {
      {{},
       {},
       0,
       "[stand_in] ranks is a list of 0; expected the ranks of 1 to 8 results"},
      {{0, 0, 0, 0, 0, 0, 0, 0, 0},
       {},
       0,
       "[stand_in] ranks is a list of 9; expected the ranks of 1 to 8 results"},
      {{-1}, {}, 0, "[stand_in] ranks holds -1; expected 0 to 8"},
      {{9},
       {1, 1, 1, 1, 1, 1, 1, 1, 1},
       0,
       "[stand_in] ranks holds 9; expected 0 to 8"},
      {{2, 1},
       {4, 5},
       0,
       "[stand_in] dims is a list of 2; the ranks add up to 3"},
      {{1}, {4, 5}, 0, "[stand_in] dims is a list of 2; the ranks add up to 1"},
      {{1},
       {0},
       0,
       "[stand_in] a result would be f32(0); dimensions must be at least 1 and "
       "their product fit 63 bits"},
      {{1},
       {4},
       -1,
       "[stand_in] flops is -1; expected a finite number of at least 0"},
  };
  for (const BadRow& row : rows) {
    INFO(row.message);
    const Attrs attrs = {{"dtype", DType::kF32},
                         {"ranks", row.ranks},
                         {"dims", row.dims},
                         {"flops", row.flops}};
    const OpArgs args = {OpKind::kStandIn, {}, {}, attrs};
    const auto types = GetOpDef(OpKind::kStandIn).infer(args);
    REQUIRE_FALSE(types.ok());
    CHECK(types.error().message == row.message);
  }
}

}  // namespace
}  // namespace stowage
