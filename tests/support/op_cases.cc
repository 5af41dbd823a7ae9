#include "tests/support/op_cases.h"

#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "math/small_floats.h"
#include "tests/support/op_case_table.h"

namespace stowage {
namespace {

using testing::Binary;
using testing::In;
using testing::kInteger;
using testing::kLoc;
using testing::kSpread;
using testing::OpCaseTable;
using testing::Out;
using testing::Unary;

class Table : public OpCaseTable {
 public:
  using OpCaseTable::OpCaseTable;

  void AddReduction(OpKind op, const LeafSpec& x, const std::string& variant,
                    const Axes& axes, bool keep) {
    Add(op, variant, {x}, [op, axes, keep](GraphBuilder&, In in) {
      if (op == OpKind::kReduceSum) return Out{ReduceSum(in[0], axes, keep)};
      if (op == OpKind::kReduceMean) return Out{ReduceMean(in[0], axes, keep)};
      return Out{ReduceMax(in[0], axes, keep)};
    });
  }

  void AddCreation();
  void AddMovement();
  void AddViews();
  void AddElementwise();
  void AddReductions();
  void AddSoftmaxes();
  void AddCrossEntropy();
  void AddUpdates();
  void AddSkippedUpdates();
};

void Table::AddCreation() {
  Add(OpKind::kFill, "", {}, [this_real = real()](GraphBuilder& g, In) {
    return Out{Fill(g, -2.5, this_real, {3, 5}), Fill(g, 7, DType::kI64, {}),
               Fill(g, 1, DType::kBool, {4})};
  });
  Add(OpKind::kConstant, "", {}, [](GraphBuilder& g, In) {
    const float reals[] = {1.5f, -2, 3.25f, 0, 1e-3f, -1e6f};
    const int32_t integers[] = {3, -1, 2000000000};
    const auto f = std::as_bytes(std::span(reals));
    const auto i = std::as_bytes(std::span(integers));
    return Out{Constant(g, DType::kF32, {2, 3}, f),
               Constant(g, DType::kI32, {3}, i)};
  });
}

void Table::AddMovement() {
  AddUnary(OpKind::kCopy, Copy, Real("x", {}));
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                            DType::kI32, DType::kBool}) {
    if (dtype == real()) continue;
    OpCase& row =
        Add(OpKind::kCast, StrCat(" to ", DTypeName(dtype)),
            {Real("x", {3, 7}, -9, 9)}, [dtype](GraphBuilder&, In in) {
              return Out{Cast(Transpose(in[0]), dtype)};
            });
    if (SizeOf(dtype) == 2) row.tolerance = 1.0 / 128;  // of bf16: 8 bits
  }
  const DType narrow = real() == DType::kBF16 ? DType::kF16 : DType::kBF16;
  Add(OpKind::kCast, " and back", {Real("x", {3, 7})},
      [narrow](GraphBuilder&, In in) {
        return Out{Cast(Cast(in[0], narrow), in[0].dtype())};
      })
      .tolerance = 1.0 / 128;
  Add(OpKind::kCast, " from i32", {Index("x", {5}, 100)},
      [this_real = real()](GraphBuilder&, In in) {
        return Out{Cast(in[0], this_real)};
      });
  LeafSpec on_host = Real("state", {3, 7}, -1, 1, Role::kState);
  on_host.on_host = true;
  Add(OpKind::kReload, "", {on_host},
      [](GraphBuilder&, In in) { return Out{Reload(in[0])}; });
  Add(OpKind::kReload, " and an update of what was reloaded",
      {Real("w", {3, 7}, -1, 1, Role::kParam), on_host, Real("g", {3, 7}),
       Scalar("lr", DType::kF32, 0.125)},
      [](GraphBuilder&, In in) {
        const MomentumResults updated = MomentumUpdate(
            in[0], Reload(in[1]), in[2], in[3], Value(), 0.9, 0.1);
        return Out{updated.w, Reload(OffloadUpdate(in[1], updated.velocity))};
      });
  Add(OpKind::kOffload, "", {Real("x", {5, 3})},
      [](GraphBuilder&, In in) { return Out{Reload(Offload(in[0]))}; });
  Add(OpKind::kOffload, " of a view", {Real("x", {3, 5})},
      [](GraphBuilder&, In in) {
        return Out{Reload(Offload(Transpose(in[0])))};
      });
  Add(OpKind::kOffloadUpdate, "", {on_host, Real("x", {3, 7})},
      [](GraphBuilder&, In in) {
        return Out{Reload(OffloadUpdate(in[0], in[1]))};
      });
  Add(OpKind::kConcat, "", {Real("a", {3, 2}), Real("b", {3, 5})},
      [](GraphBuilder&, In in) { return Out{Concat(in, 1)}; });
  Add(OpKind::kConcat, " of views",
      {Real("a", {2, 1, 4}), Real("b", {4, 3, 2}), Real("c", {2, 2, 4})},
      [](GraphBuilder&, In in) {
        const Value parts[] = {BroadcastTo(in[0], {2, 3, 4}),
                               Permute(in[1], {2, 1, 0}), in[2], in[2]};
        return Out{Concat(parts, 1)};
      });
  Add(OpKind::kGather, "", {Real("table", {7, 3}), Index("indices", {2, 5}, 7)},
      [](GraphBuilder&, In in) { return Out{Gather(in[0], in[1])}; });
  Add(OpKind::kGather, " of rows of 16",
      {Real("table", {7, 16}), Index("indices", {5}, 7)},
      [](GraphBuilder&, In in) { return Out{Gather(in[0], in[1])}; });
  Add(OpKind::kGather, " of scalars by i64",
      {Real("table", {4}), Index("indices", {6}, 4, DType::kI64)},
      [](GraphBuilder&, In in) { return Out{Gather(in[0], in[1])}; });
  Add(OpKind::kGather, " from a view",
      {Real("table", {3, 7}), Index("indices", {4}, 7)},
      [](GraphBuilder&, In in) {
        return Out{Gather(Transpose(in[0]), in[1])};
      });
  Add(OpKind::kScatterAdd, "",
      {Real("base", {4, 3}), Index("indices", {2, 5}, 4),
       Real("updates", {2, 5, 3})},
      [](GraphBuilder&, In in) {
        return Out{ScatterAdd(in[0], in[1], in[2])};
      });
  Add(OpKind::kScatterAdd, " of rows of 16",
      {Real("base", {4, 16}), Index("indices", {5}, 4),
       Real("updates", {5, 16})},
      [](GraphBuilder&, In in) {
        return Out{ScatterAdd(in[0], in[1], in[2])};
      });
  Add(OpKind::kScatterAdd, " of views",
      {Real("base", {3, 4}), Index("indices", {6}, 4, DType::kI64),
       Real("updates", {1, 3})},
      [](GraphBuilder&, In in) {
        return Out{
            ScatterAdd(Transpose(in[0]), in[1], BroadcastTo(in[2], {6, 3}))};
      });
}

void Table::AddViews() {
  Add(OpKind::kReshape, "", {Real("x", {3, 4})}, [](GraphBuilder&, In in) {
    return Out{Reshape(in[0], {2, -1, 3})};
  });
  Add(OpKind::kReshape, " of a view, by a copy", {Real("x", {3, 4})},
      [](GraphBuilder&, In in) {
        return Out{Reshape(Transpose(in[0]), {12})};
      });
  Add(OpKind::kPermute, "", {Real("x", {2, 3, 5})}, [](GraphBuilder&, In in) {
    return Out{Permute(in[0], {1, 2, 0})};
  });
  Add(OpKind::kPermute, " of a scalar", {Real("x", {})},
      [](GraphBuilder&, In in) { return Out{Permute(in[0], {})}; });
  Add(OpKind::kSlice, "", {Real("x", {5, 7})},
      [](GraphBuilder&, In in) { return Out{Slice(in[0], 0, 1, 4)}; });
  Add(OpKind::kSlice, " at the ends", {Real("x", {5, 7})},
      [](GraphBuilder&, In in) {
        return Out{Slice(in[0], 1, 0, 2), Slice(in[0], 1, 6, 7),
                   Slice(in[0], 0, 0, 5)};
      })
      .differentiable = 3;
  Add(OpKind::kSlice, " with steps", {Real("x", {3, 11, 2})},
      [](GraphBuilder&, In in) {
        return Out{Slice(in[0], 1, 2, 10, 3), Slice(in[0], 1, 0, 11, 2),
                   Slice(in[0], 1, 1, 11, 5), Slice(in[0], 0, 1, 3, 7)};
      })
      .differentiable = 4;
  Add(OpKind::kSlice, " of rank 8", {Real("x", {1, 2, 1, 2, 5, 1, 2, 1})},
      [](GraphBuilder&, In in) { return Out{Slice(in[0], 4, 1, 5, 2)}; });
  Add(OpKind::kSplit, "", {Real("x", {3, 7})}, [](GraphBuilder&, In in) {
    return Split(in[0], 1, {2, 4, 1});
  }).differentiable = 3;
  Add(OpKind::kSplit, " used in part", {Real("x", {7, 3})},
      [](GraphBuilder&, In in) {
        const std::vector<Value> pieces =
            Split(Transpose(in[0]), 1, {1, 3, 1, 2});
        return Out{Square(pieces[1]), Exp(pieces[3])};
      })
      .differentiable = 2;
  Add(OpKind::kBroadcast, "", {Real("x", {3, 1, 2})}, [](GraphBuilder&, In in) {
    return Out{BroadcastTo(in[0], {3, 5, 2})};
  });
  Add(OpKind::kBroadcast, " to more dimensions", {Real("x", {3, 1})},
      [](GraphBuilder&, In in) {
        return Out{BroadcastTo(in[0], {2, 1, 3, 4}),
                   BroadcastTo(in[0], {5, 3, 1})};
      })
      .differentiable = 2;
  Add(OpKind::kBroadcast, " of a scalar", {Real("x", {})},
      [](GraphBuilder&, In in) {
        return Out{BroadcastTo(in[0], {3, 2})};
      });
  Add(OpKind::kStopGradient, "", {Real("x", {3, 4})}, [](GraphBuilder&, In in) {
    return Out{Exp(StopGradient(Transpose(in[0])))};
  });
}

void Table::AddElementwise() {
  const LeafSpec any = Real("x", {}, -3, 3);
  const LeafSpec positive = Real("x", {}, 0.25, 3);
  const LeafSpec kinked = Spread("x", {});
  AddUnary(OpKind::kNeg, Neg, any);
  AddUnary(OpKind::kAbs, Abs, kinked);
  AddUnary(OpKind::kSign, Sign, kinked);
  AddUnary(OpKind::kExp, Exp, any);
  AddUnary(OpKind::kLog, Log, positive);
  AddUnary(OpKind::kSqrt, Sqrt, positive);
  AddUnary(OpKind::kRsqrt, Rsqrt, positive);
  AddUnary(OpKind::kSquare, Square, any);
  AddUnary(OpKind::kReciprocal, Reciprocal, positive);
  AddUnary(OpKind::kSin, Sin, any);
  AddUnary(OpKind::kCos, Cos, any);
  AddUnary(OpKind::kRelu, Relu, kinked);
  AddUnary(OpKind::kSilu, Silu, any);
  AddUnary(OpKind::kSigmoid, Sigmoid, any);
  AddUnary(OpKind::kTanh, Tanh, any);
  AddUnary(OpKind::kGeluTanh, GeluTanh, any);
  AddUnary(OpKind::kGeluErf, GeluErf, any);
  AddUnary(OpKind::kLogicalNot, LogicalNot, Bool("x", {}));

  AddBinary(OpKind::kAdd, stowage::Add, Real("a", {}), Real("b", {}));
  AddBinary(OpKind::kSub, Sub, Real("a", {}), Real("b", {}));
  AddBinary(OpKind::kMul, Mul, Real("a", {}), Real("b", {}));
  AddBinary(OpKind::kDiv, Div, Real("a", {}), Real("b", {}, 0.25, 2));
  AddBinary(OpKind::kPow, Pow, Real("a", {}, 0.25, 2), Real("b", {}, -2, 3));
  AddBinary(OpKind::kMaximum, Maximum, Spread("a", {}), Spread("b", {}));
  AddBinary(OpKind::kMinimum, Minimum, Spread("a", {}), Spread("b", {}));
  Add(OpKind::kMul, " of a value by itself", {Real("x", {2, 3})},
      [](GraphBuilder&, In in) { return Out{Mul(in[0], in[0])}; });
  Add(OpKind::kAdd, " of integers", {Index("a", {5}, 9), Index("b", {5}, 9)},
      [](GraphBuilder&, In in) { return Out{stowage::Add(in[0], in[1])}; });
  // Small integers, so that some are equal.
  const LeafSpec a = Index("a", {}, 3);
  const LeafSpec b = Index("b", {}, 3);
  AddBinary(OpKind::kEqual, Equal, a, b);
  AddBinary(OpKind::kNotEqual, NotEqual, a, b);
  AddBinary(OpKind::kLess, Less, a, b);
  AddBinary(OpKind::kLessEqual, LessEqual, a, b);
  AddBinary(OpKind::kGreater, Greater, a, b);
  AddBinary(OpKind::kGreaterEqual, GreaterEqual, a, b);
  AddBinary(OpKind::kLess, Less, Spread("a", {}), Spread("b", {}), " of reals");
  AddBinary(OpKind::kLogicalAnd, LogicalAnd, Bool("a", {}), Bool("b", {}));
  AddBinary(OpKind::kLogicalOr, LogicalOr, Bool("a", {}), Bool("b", {}));

  AddUnaryGrad(OpKind::kReluGrad, ReluGrad, Spread("y", {}));
  AddUnaryGrad(OpKind::kSigmoidGrad, SigmoidGrad, Real("y", {}, 0, 1));
  AddUnaryGrad(OpKind::kTanhGrad, TanhGrad, Real("y", {}));
  AddUnaryGrad(OpKind::kSiluGrad, SiluGrad, any);
  AddUnaryGrad(OpKind::kGeluTanhGrad, GeluTanhGrad, any);
  AddUnaryGrad(OpKind::kGeluErfGrad, GeluErfGrad, any);

  AddUnary(OpKind::kExpm1, Expm1, any);
  AddUnary(OpKind::kLog1p, Log1p, Real("x", {}, -0.75, 3));
  AddUnary(OpKind::kErf, Erf, any);
  AddUnary(OpKind::kFloor, Floor, any);
  AddUnary(OpKind::kCeil, Ceil, any);
  AddUnary(OpKind::kRound, Round, any);
  AddUnary(OpKind::kSoftplus, Softplus, any);
  AddUnary(OpKind::kMish, Mish, any);
  AddUnary(OpKind::kHardSwish, HardSwish, Real("x", {}, -6, 6));
  AddUnaryGrad(OpKind::kMishGrad, MishGrad, any);
  AddUnaryGrad(OpKind::kHardSwishGrad, HardSwishGrad, Real("x", {}, -6, 6));
  AddUnary(
      OpKind::kLeakyRelu,
      [](Value x, SourceLoc loc) { return LeakyRelu(x, 0.125, loc); }, kinked);
  AddUnary(
      OpKind::kElu,
      [](Value x, SourceLoc loc) { return Elu(x, 0.75, 1.25, loc); }, kinked);
  // Bounds that elements keep their distance from.
  AddUnary(
      OpKind::kClamp,
      [](Value x, SourceLoc loc) { return Clamp(x, -0.125, 0.1875, loc); },
      kinked);
  AddUnaryGrad(
      OpKind::kLeakyReluGrad,
      [](Value y, Value dy, SourceLoc loc) {
        return Apply(OpKind::kLeakyReluGrad, {y, dy}, {{"slope", 0.125}}, loc);
      },
      Spread("y", {}));
  AddUnaryGrad(
      OpKind::kEluGrad,
      [](Value y, Value dy, SourceLoc loc) {
        return Apply(OpKind::kEluGrad, {y, dy},
                     {{"alpha", 0.75}, {"scale", 1.25}}, loc);
      },
      Spread("y", {}));
  AddUnaryGrad(
      OpKind::kClampGrad,
      [](Value y, Value dy, SourceLoc loc) {
        return Apply(OpKind::kClampGrad, {y, dy},
                     {{"min", -0.125}, {"max", 0.1875}}, loc);
      },
      Spread("y", {}));
  // a / b between whole numbers, in front of 0 and behind.
  const LeafSpec divisor = Real("b", {}, 2, 2.25);
  for (const auto& [op, f] :
       {std::pair<OpKind, Binary>{OpKind::kRemainder, Remainder},
        std::pair<OpKind, Binary>{OpKind::kFmod, Fmod}}) {
    AddBinary(op, f, Real("a", {}, 4.75, 5.75), divisor);
    AddBinary(op, f, Real("a", {}, -5.75, -4.75), divisor,
              " of what is below 0");
  }

  const auto where = [](GraphBuilder&, In in) {
    return Out{Where(in[0], in[1], in[2])};
  };
  Add(OpKind::kWhere, "",
      {Bool("condition", {3, 5}), Real("a", {3, 5}), Real("b", {3, 5})}, where);
  Add(OpKind::kWhere, " with broadcasting",
      {Bool("condition", {1, 5}), Real("a", {3, 1}), Real("b", {})}, where);

  const auto dropout = [](double p) {
    return [p](GraphBuilder&, In in) {
      return Out{Dropout(in[0], in[1], in[2], p, 3)};
    };
  };
  const LeafSpec seed = Index("seed", {}, 1e12, DType::kI64);
  const LeafSpec step = Index("step", {}, 1e6, DType::kI64);
  Add(OpKind::kDropout, "", {Real("x", {9, 7}), seed, step}, dropout(0.3));
  Add(OpKind::kDropout, " that keeps all", {Real("x", {9}), seed, step},
      dropout(0));
  Add(OpKind::kDropout, " of a view", {Real("x", {9, 7}), seed, step},
      [](GraphBuilder&, In in) {
        return Out{Dropout(Transpose(in[0]), in[1], in[2], 0.5, 0)};
      });
}

void Table::AddReductions() {
  for (const OpKind op :
       {OpKind::kReduceSum, OpKind::kReduceMean, OpKind::kReduceMax}) {
    const LeafSpec x = Spread("x", {3, 4, 5});
    AddReduction(op, x, " over all", {}, false);
    AddReduction(op, x, " over the last axis", {2}, false);
    AddReduction(op, x, " over the first axis", {0}, false);
    AddReduction(op, x, " over the middle, kept", {1}, true);
    AddReduction(op, x, " over outer axes", {0, 2}, false);
    AddReduction(op, x, " over all, kept", {}, true);
    AddReduction(op, Spread("x", {}), " of a scalar", {}, false);
  }
  Add(OpKind::kReduceSum, " of a view", {Real("x", {3, 5})},
      [](GraphBuilder&, In in) {
        return Out{ReduceSum(Transpose(in[0]), {1})};
      });
  Add(OpKind::kSumSquares, "", {Real("x", {3, 7})},
      [](GraphBuilder&, In in) { return Out{SumSquares(in[0])}; });
  Add(OpKind::kSumSquares, " of a view", {Real("x", {3, 7})},
      [](GraphBuilder&, In in) {
        return Out{SumSquares(Slice(in[0], 1, 1, 6, 2))};
      });
  Add(OpKind::kArgMax, "", {Spread("x", {3, 7})},
      [](GraphBuilder&, In in) { return Out{ArgMax(in[0])}; });
  Add(OpKind::kArgMax, " among equals", {Index("x", {4, 6}, 2)},
      [](GraphBuilder&, In in) { return Out{ArgMax(in[0])}; });
}

void Table::AddSoftmaxes() {
  AddUnaryGrad(OpKind::kSoftmaxGrad, SoftmaxGrad, Real("y", {}, 0, 1));
  AddUnaryGrad(OpKind::kLogSoftmaxGrad, LogSoftmaxGrad, Real("y", {}, -3, 0));
  for (const OpKind op : {OpKind::kSoftmax, OpKind::kLogSoftmax}) {
    const auto softmax = [op](Value x, int64_t axis) {
      return op == OpKind::kSoftmax ? Softmax(x, axis) : LogSoftmax(x, axis);
    };
    Add(op, "", {Real("x", {3, 5}, -4, 4)},
        [=](GraphBuilder&, In in) { return Out{softmax(in[0], -1)}; });
    Add(op, " along another axis", {Real("x", {2, 5, 3}, -4, 4)},
        [=](GraphBuilder&, In in) { return Out{softmax(in[0], 1)}; });
    Add(op, " of large numbers", {Real("x", {2, 3}, 1000, 1010)},
        [=](GraphBuilder&, In in) { return Out{softmax(in[0], -1)}; });
  }
}

void Table::AddCrossEntropy() {
  const auto build = [](GraphBuilder& g, In in) {
    std::vector<Value> results = g.Emit(OpKind::kCrossEntropy, in, {});
    results.resize(2);  // loss, log-sum-exp
    return results;
  };
  Add(OpKind::kCrossEntropy, "",
      {Real("logits", {4, 7}, -3, 3), Index("labels", {4}, 7)}, build);
  Add(OpKind::kCrossEntropy, " of sequences, by i64",
      {Real("logits", {2, 3, 5}, -3, 3),
       Index("labels", {2, 3}, 5, DType::kI64)},
      build);
  Add(OpKind::kCrossEntropyGrad, "",
      {Real("logits", {4, 7}, -3, 3), Index("labels", {4}, 7),
       Statistic("dloss", {})},
      [=](GraphBuilder& g, In in) {
        const std::vector<Value> forward = build(g, in.first(2));
        return Out{CrossEntropyGrad(in[0], in[1], forward[1], in[2])};
      });
}

void Table::AddUpdates() {
  const LeafSpec w = Real("w", {3, 5}, -1, 1, Role::kParam);
  const LeafSpec velocity = Real("velocity", {3, 5}, -1, 1, Role::kState);
  const LeafSpec m = Real("m", {3, 5}, -1, 1, Role::kState);
  const LeafSpec v = Real("v", {3, 5}, 0.1, 1, Role::kState);
  const LeafSpec g = Real("g", {3, 5});
  const LeafSpec lr = Scalar("lr", DType::kF32, 0.125);
  const LeafSpec scale = Scalar("scale", DType::kF32, 0.75);
  const LeafSpec step = Index("step", {}, 5, DType::kI64);
  const LeafSpec state = Real("state", {3, 5}, -1, 1, Role::kState);
  Add(OpKind::kAssign, "", {state, g},
      [](GraphBuilder&, In in) { return Out{Assign(in[0], in[1])}; });
  Add(OpKind::kAssign, " of a view, after a reader, before another",
      {state, Real("x", {5, 3})},
      [](GraphBuilder&, In in) {
        const Value before = Sin(in[0]);
        const Value after = Assign(in[0], Transpose(in[1]));
        return Out{stowage::Add(Cos(after), before), Assign(after, before)};
      })
      .differentiable = 2;
  Add(OpKind::kLerpUpdate, " by a scalar", {state, g, Real("weight", {})},
      [](GraphBuilder&, In in) {
        return Out{LerpUpdate(in[0], in[1], in[2])};
      });
  Add(OpKind::kLerpUpdate, " twice, of a fill",
      {Real("x", {5, 3}), Real("weight", {3, 1})}, [](GraphBuilder& b, In in) {
        const Value x = Transpose(in[0]);
        const Value once =
            LerpUpdate(Fill(b, 0.75, x.dtype(), {3, 5}), x, in[1]);
        return Out{LerpUpdate(once, Copy(Neg(x)), in[1])};
      });
  Add(OpKind::kSliceUpdate, "", {state, Real("x", {3, 2})},
      [](GraphBuilder&, In in) {
        return Out{SliceUpdate(in[0], in[1], -1, 3)};
      });
  LeafSpec cache = Real("cache", {2, 6, 3}, -1, 1, Role::kCache);
  Add(OpKind::kSliceUpdate, " of a cache, from an index",
      {cache, Real("x", {3, 2, 2}), Index("from", {}, 5)},
      [](GraphBuilder&, In in) {
        return Out{SliceUpdate(in[0], Permute(in[1], {1, 2, 0}), 1, in[2])};
      });
  Add(OpKind::kSliceUpdate, " of all but a column, from an i64",
      {state, Real("x", {3, 4}), {"from", DType::kI64, {}, kInteger, 0, 2}},
      [](GraphBuilder&, In in) {
        return Out{SliceUpdate(in[0], in[1], 1, in[2])};
      });
  Add(OpKind::kSliceUpdate, " of a fill, in parts",
      {Index("x", {2, 1, 3}, 50), Index("y", {3, 1, 2}, 50)},
      [](GraphBuilder& b, In in) {
        Value whole = Fill(b, 7, in[0].dtype(), {2, 4, 3});
        whole = SliceUpdate(whole, in[0], 1, 0);
        return Out{SliceUpdate(whole, Permute(in[1], {2, 1, 0}), 1, 2)};
      });
  Add(OpKind::kSgdUpdate, "", {w, g, lr}, [](GraphBuilder&, In in) {
    return Out{SgdUpdate(in[0], in[1], in[2], Value(), 0.1)};
  });
  Add(OpKind::kSgdUpdate, " with a scale", {w, g, lr, scale},
      [](GraphBuilder&, In in) {
        return Out{SgdUpdate(in[0], in[1], in[2], in[3], 0)};
      });
  for (const bool scaled : {false, true}) {
    std::vector<LeafSpec> leaves = {w, velocity, g, lr, scale};
    if (!scaled) leaves.pop_back();
    Add(OpKind::kMomentumUpdate, scaled ? " with a scale" : "", leaves,
        [=](GraphBuilder&, In in) {
          const MomentumResults results = MomentumUpdate(
              in[0], in[1], in[2], in[3], scaled ? in[4] : Value(), 0.9, 0.1);
          return Out{results.w, results.velocity};
        });
    Add(OpKind::kNesterovUpdate, scaled ? " with a scale" : "", leaves,
        [=](GraphBuilder&, In in) {
          const MomentumResults results = NesterovUpdate(
              in[0], in[1], in[2], in[3], scaled ? in[4] : Value(), 0.9, 0.1);
          return Out{results.w, results.velocity};
        });
    leaves[1] = v;
    Add(OpKind::kRmsPropUpdate, scaled ? " with a scale" : "", leaves,
        [=](GraphBuilder&, In in) {
          const MeanSquareResults results =
              RmsPropUpdate(in[0], in[1], in[2], in[3],
                            scaled ? in[4] : Value(), 0.9, 1e-8, 0.1);
          return Out{results.w, results.v};
        });
    Add(OpKind::kAdagradUpdate, scaled ? " with a scale" : "", leaves,
        [=](GraphBuilder&, In in) {
          const MeanSquareResults results = AdagradUpdate(
              in[0], in[1], in[2], in[3], scaled ? in[4] : Value(), 1e-10, 0.1);
          return Out{results.w, results.v};
        });
    leaves = {w, m, v, g, lr, step, scale};
    leaves[5].low = 1;  // steps count from 1
    if (!scaled) leaves.pop_back();
    Add(OpKind::kAdamUpdate, scaled ? " with a scale" : "", leaves,
        [=](GraphBuilder&, In in) {
          const AdamWResults results =
              AdamUpdate(in[0], in[1], in[2], in[3], in[4], in[5],
                         scaled ? in[6] : Value(), 0.9, 0.99, 1e-8, 0.1);
          return Out{results.w, results.m, results.v};
        });
    Add(OpKind::kAdamWUpdate, scaled ? " with a scale" : "", leaves,
        [=](GraphBuilder&, In in) {
          const AdamWResults results =
              AdamWUpdate(in[0], in[1], in[2], in[3], in[4], in[5],
                          scaled ? in[6] : Value(), 0.9, 0.99, 1e-8, 0.1);
          return Out{results.w, results.m, results.v};
        });
  }
}

// Of every row with a scale of the gradient or a weight of the new, one with that
// infinite, so that nothing changes.
void Table::AddSkippedUpdates() {
  const std::vector<OpCase> rows = this->rows();  // a copy: the table grows
  for (const OpCase& row : rows) {
    if (GetOpDef(row.op).updates == 0) continue;
    const std::string& last = row.leaves.back().name;
    if (last != "scale" && last != "weight") continue;
    Add(row.op, row.name.substr(OpName(row.op).size()) + ", skipped",
        row.leaves,
        [build = row.build](GraphBuilder& b, In in) {
          std::vector<Value> leaves(in.begin(), in.end());
          const TensorType type = leaves.back().type();
          leaves.back() = Fill(b, std::numeric_limits<double>::infinity(),
                               type.dtype, type.shape);
          return build(b, leaves);
        })
        .differentiable = 0;
  }
}

Value DeclareLeaf(GraphBuilder& g, const LeafSpec& leaf) {
  switch (leaf.role) {
    case Role::kParam:
      return g.Param(leaf.name, leaf.dtype, leaf.shape);
    case Role::kState:
      if (leaf.on_host) return g.HostState(leaf.name, leaf.dtype, leaf.shape);
      return g.State(leaf.name, leaf.dtype, leaf.shape);
    case Role::kCache:
      return g.Cache(leaf.name, leaf.dtype, leaf.shape);
    default:
      return g.Input(leaf.name, leaf.dtype, leaf.shape);
  }
}

// The f32 number nearest to x, and of these, for bf16 and f16, the nearest of
// theirs.
double RoundTo(DType dtype, double x) {
  const auto nearest = static_cast<float>(x);
  if (dtype == DType::kBF16) {
    return math::BFloat16ToFloat(math::FloatToBFloat16(nearest));
  }
  if (dtype == DType::kF16) {
    return math::HalfToFloat(math::FloatToHalf(nearest));
  }
  return nearest;
}

// Uniform in [0, 1); the same on every platform.
double Uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

}  // namespace

std::vector<OpCase> OpCases(DType real) {
  Table table(real);
  table.AddCreation();
  table.AddMovement();
  table.AddViews();
  table.AddElementwise();
  table.AddReductions();
  testing::AddMatMul(table);
  table.AddSoftmaxes();
  table.AddCrossEntropy();
  testing::AddAttention(table);
  testing::AddBatchNorm(table);
  testing::AddLocalResponseNorm(table);
  testing::AddLstm(table);
  testing::AddLayerNorm(table);
  testing::AddPartialSums(table);
  testing::AddRmsNorm(table);
  testing::AddRope(table);
  testing::AddFused(table);
  testing::AddGlu(table);
  testing::AddCompactUpdates(table);
  testing::AddConvolutions(table);
  testing::AddIndexing(table);
  testing::AddPad(table);
  testing::AddPooling(table);
  testing::AddQuantized(table);
  testing::AddResize(table);
  table.AddUpdates();
  table.AddSkippedUpdates();
  return table.Take();
}

std::vector<OpCase> GpuOpCases(DType real) {
  std::vector<OpCase> cases = OpCases(real);
  std::erase_if(cases, [](const OpCase& c) {
    const Graph graph = BuildCase(c);
    return std::ranges::any_of(graph.nodes(), [](const Node& node) {
      return node.attrs.Find("softcap") != nullptr;
    });
  });
  return cases;
}

Graph BuildCase(const OpCase& c) {
  GraphBuilder g(c.name);
  std::vector<Value> leaves;
  for (const LeafSpec& leaf : c.leaves) leaves.push_back(DeclareLeaf(g, leaf));
  const std::vector<Value> results = c.build(g, leaves);
  for (size_t i = 0; i < results.size(); ++i) {
    g.Output(StrCat("y", i), results[i]);
  }
  Result<Graph> graph = g.Finish();
  STOWAGE_CHECK(graph.ok());
  return *std::move(graph);
}

Tensors CaseLeaves(const OpCase& c, uint64_t seed) {
  std::mt19937_64 random(seed);
  // Odd multiples of the kink distance, in random order, taken one by one.
  int64_t count = 0;
  for (const LeafSpec& leaf : c.leaves) {
    if (leaf.content == kSpread) count += leaf.shape.num_elements();
  }
  std::vector<double> spread;
  for (int64_t i = 0; i < count; ++i) {
    spread.push_back((2 * (i - count / 2) + 1) * kKinkDistance);
    std::swap(spread.back(), spread[random() % spread.size()]);
  }
  Tensors leaves;
  for (const LeafSpec& leaf : c.leaves) {
    std::vector<double>& data = leaves[leaf.name];
    for (int64_t i = 0; i < leaf.shape.num_elements(); ++i) {
      double x = leaf.low + (leaf.high - leaf.low) * Uniform(random);
      if (leaf.content == kInteger) x = std::floor(x);
      if (leaf.content == Content::kReal) x = RoundTo(leaf.dtype, x);
      if (leaf.content == kSpread) {
        x = spread.back();
        spread.pop_back();
      }
      data.push_back(x);
    }
  }
  return leaves;
}

}  // namespace stowage
