#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/ir/op_rows.h"

namespace stowage {
namespace {

using Values = std::vector<Value>;

Values Only(Value value) { return {value}; }

}  // namespace

const std::vector<TypeRow>& ValueTypeRows() {
  static const std::vector<TypeRow> kRows = {
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
      {"reload",
       [](GraphBuilder& g) {
         return Only(Reload(g.HostState("s", DType::kI16, {4})));
       },
       {"i16(4)"}},
      {"offload",
       [](GraphBuilder& g) {
         return Only(Offload(Bool(g, "x", {2, 3})));
       },
       {"bool(2, 3)"}},
      {"offload_update",
       [](GraphBuilder& g) {
         return Only(OffloadUpdate(g.HostState("s", DType::kF32, {2, 3}),
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
      {"reduce_scatter of blocks of whole granules",
       [](GraphBuilder& g) {
         return Only(ReduceScatter(F32(g, "x", {2, 5}), 2, 4));
       },
       {"f32(8)"}},
      {"all_gather of blocks longer than they must be",
       [](GraphBuilder& g) {
         return Only(AllGather(Bool(g, "x", {8}), 2, {2, 5}));
       },
       {"bool(2, 5)"}},
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
  };
  return kRows;
}

}  // namespace stowage
