// Elementwise ops.

#include <limits>
#include <optional>

#include "base/strings.h"
#include "formats/array.h"
#include "ir/composites.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "onnx/ops.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

using UnaryOp = Value (*)(Value, SourceLoc);
using BinaryOp = Value (*)(Value, Value, SourceLoc);

Value Apply1(UnaryOp op, Value x) { return op(x, SourceLoc::Current()); }
Value Apply2(BinaryOp op, Value a, Value b) {
  return op(a, b, SourceLoc::Current());
}

Result<Values> Unary(ImportedNode& node, UnaryOp op) {
  return Values{Apply1(op, node.In(0))};
}

// Operand 1, which before operator set 7 may be aligned to an axis of operand 0 instead of its
// last.
Value Second(ImportedNode& node) {
  const Value b = node.In(1);
  const int64_t rank = node.ShapeOf(0).rank();
  const int64_t axis = node.Int("axis", -1);
  if (node.version() >= kUsualOpset || axis < 0 || axis > rank || !b.ok()) {
    return b;
  }
  Shape shape = b.shape();
  while (axis + shape.rank() < rank) shape.push_back(1);
  return Reshape(b, shape);
}

Result<Values> Binary(ImportedNode& node, BinaryOp op) {
  return Values{Apply2(op, node.In(0), Second(node))};
}

// Variadic ops, from left to right.
Result<Values> Joined(ImportedNode& node, BinaryOp op) {
  Value joined = node.In(0);
  for (int i = 1; i < node.num_operands(); ++i) {
    joined = Apply2(op, joined, node.In(i));
  }
  return Values{joined};
}

// The constant scalar of an operand.
std::optional<double> FixedNumber(ImportedNode& node, int i) {
  const Array* const contents = node.Fixed(i);
  if (!contents || contents->type.shape.num_elements() != 1) return {};
  return RealsOf(*contents)[0];
}

// Returns whether x is a sum or mean, or a multiple of one, as under the root of norms and
// deviations, without an added epsilon.
bool IsSum(Value x) {
  if (!x.ok()) return false;
  const Graph& graph = x.builder()->graph();
  ValueId at = x.id();
  for (int steps = 0; steps < 8; ++steps) {
    const NodeId producer = graph.value(at).producer;
    if (producer == kNoNode) return false;
    const Node& node = graph.node(producer);
    switch (node.op) {
      case OpKind::kReduceSum:
      case OpKind::kReduceMean:
        return true;
      case OpKind::kMul:
      case OpKind::kDiv:
      case OpKind::kReshape:
      case OpKind::kCast:
        at = node.inputs[0];
        break;
      default:
        return false;
    }
  }
  return false;
}

Error OfIntegers(const ImportedNode& node) {
  return node.Unsupported(StrCat("of ", DTypeName(node.Type(0).dtype),
                                 " is computed where all of it is known when a "
                                 "plan is made, and not in a step"));
}

}  // namespace

Result<Values> ConvertAbs(ImportedNode& node) { return Unary(node, Abs); }
Result<Values> ConvertNeg(ImportedNode& node) { return Unary(node, Neg); }
Result<Values> ConvertExp(ImportedNode& node) { return Unary(node, Exp); }
Result<Values> ConvertLog(ImportedNode& node) { return Unary(node, Log); }
Result<Values> ConvertSqrt(ImportedNode& node) {
  const Value x = node.In(0);
  return Values{IsSum(x) ? Root(x) : Sqrt(x)};
}
Result<Values> ConvertReciprocal(ImportedNode& node) {
  return Unary(node, Reciprocal);
}
Result<Values> ConvertFloor(ImportedNode& node) { return Unary(node, Floor); }
Result<Values> ConvertCeil(ImportedNode& node) { return Unary(node, Ceil); }
Result<Values> ConvertRound(ImportedNode& node) { return Unary(node, Round); }
Result<Values> ConvertErf(ImportedNode& node) { return Unary(node, Erf); }
Result<Values> ConvertSin(ImportedNode& node) { return Unary(node, Sin); }
Result<Values> ConvertCos(ImportedNode& node) { return Unary(node, Cos); }
Result<Values> ConvertTanh(ImportedNode& node) { return Unary(node, Tanh); }
Result<Values> ConvertSigmoid(ImportedNode& node) {
  return Unary(node, Sigmoid);
}
Result<Values> ConvertRelu(ImportedNode& node) { return Unary(node, Relu); }
Result<Values> ConvertSoftplus(ImportedNode& node) {
  return Unary(node, Softplus);
}
Result<Values> ConvertMish(ImportedNode& node) { return Unary(node, Mish); }
Result<Values> ConvertHardSwish(ImportedNode& node) {
  return Unary(node, HardSwish);
}
Result<Values> ConvertSign(ImportedNode& node) { return Unary(node, Sign); }
Result<Values> ConvertNot(ImportedNode& node) {
  return Unary(node, LogicalNot);
}
Result<Values> ConvertIsNaN(ImportedNode& node) { return Unary(node, IsNan); }

Result<Values> ConvertIsInf(ImportedNode& node) {
  const bool above = node.Int("detect_positive", 1) != 0;
  const bool below = node.Int("detect_negative", 1) != 0;
  const double infinity = std::numeric_limits<double>::infinity();
  const Value x = node.In(0);
  if (above && below) return Values{Equal(Abs(x), Like(x, infinity))};
  if (!above && !below) {
    return Values{Fill(node.graph(), 0, DType::kBool, node.ShapeOf(0))};
  }
  return Values{Equal(x, Like(x, above ? infinity : -infinity))};
}

Result<Values> ConvertTan(ImportedNode& node) {
  const Value x = node.In(0);
  return Values{Div(Sin(x), Cos(x))};
}
Result<Values> ConvertSinh(ImportedNode& node) {
  // By e^x - 1, to avoid cancellation near 0.
  const Value e = Expm1(node.In(0));
  return Values{MulScalar(Add(e, Div(e, AddScalar(e, 1))), 0.5)};
}
Result<Values> ConvertCosh(ImportedNode& node) {
  const Value x = node.In(0);
  return Values{MulScalar(Add(Exp(x), Exp(Neg(x))), 0.5)};
}
Result<Values> ConvertAsinh(ImportedNode& node) {
  const Value x = node.In(0), a = Abs(x);
  const Value root = Sqrt(AddScalar(Square(a), 1));
  return Values{
      Mul(Sign(x), Log1p(Add(a, Div(Square(a), AddScalar(root, 1)))))};
}
Result<Values> ConvertAcosh(ImportedNode& node) {
  const Value x = node.In(0);
  return Values{Log(Add(x, Sqrt(AddScalar(Square(x), -1))))};
}
Result<Values> ConvertAtanh(ImportedNode& node) {
  const Value x = node.In(0);
  return Values{MulScalar(Sub(Log1p(x), Log1p(Neg(x))), 0.5)};
}
Result<Values> ConvertSoftsign(ImportedNode& node) {
  const Value x = node.In(0);
  return Values{Div(x, AddScalar(Abs(x), 1))};
}

Result<Values> ConvertLeakyRelu(ImportedNode& node) {
  return Values{LeakyRelu(node.In(0), node.Float("alpha", 0.01f))};
}
Result<Values> ConvertElu(ImportedNode& node) {
  return Values{Elu(node.In(0), node.Float("alpha", 1))};
}
Result<Values> ConvertSelu(ImportedNode& node) {
  return Values{Elu(node.In(0), node.Float("alpha", 1.67326319217681884765625),
                    node.Float("gamma", 1.05070102214813232421875))};
}
Result<Values> ConvertCelu(ImportedNode& node) {
  const double alpha = node.Float("alpha", 1);
  return Values{MulScalar(Elu(MulScalar(node.In(0), 1 / alpha)), alpha)};
}
Result<Values> ConvertHardSigmoid(ImportedNode& node) {
  return Values{HardSigmoid(node.In(0), node.Float("alpha", 0.2f),
                            node.Float("beta", 0.5))};
}
Result<Values> ConvertThresholdedRelu(ImportedNode& node) {
  const Value x = node.In(0);
  return Values{
      Where(Greater(x, Like(x, node.Float("alpha", 1))), x, Like(x, 0))};
}
Result<Values> ConvertShrink(ImportedNode& node) {
  const double limit = node.Float("lambd", 0.5), bias = node.Float("bias", 0);
  const Value x = node.In(0);
  return Values{
      Where(Greater(x, Like(x, limit)), AddScalar(x, -bias),
            Where(Less(x, Like(x, -limit)), AddScalar(x, bias), Like(x, 0)))};
}
Result<Values> ConvertGelu(ImportedNode& node) {
  const std::string form = node.Text("approximate", "none");
  if (form != "none" && form != "tanh") {
    return node.Unsupported(StrCat("approximates by ", Quoted(form),
                                   "; expected \"none\" or \"tanh\""));
  }
  return Unary(node, form == "tanh" ? GeluTanh : GeluErf);
}
Result<Values> ConvertPRelu(ImportedNode& node) {
  const Value x = node.In(0);
  // Before operator set 7 a vector is per channel.
  const bool of_channels =
      node.version() < kUsualOpset && node.ShapeOf(1).rank() == 1;
  const Value slope =
      of_channels ? PerChannel(node.In(1), node.ShapeOf(0).rank()) : node.In(1);
  return Values{Where(Less(x, Like(x, 0)), Mul(x, slope), x)};
}
Result<Values> ConvertSwish(ImportedNode& node) {
  const double alpha = node.Float("alpha", 1);
  const Value x = node.In(0);
  return Values{alpha == 1 ? Silu(x) : Mul(x, Sigmoid(MulScalar(x, alpha)))};
}

Result<Values> ConvertClip(ImportedNode& node) {
  const Value x = node.In(0);
  const double infinity = std::numeric_limits<double>::infinity();
  if (node.version() < 11) {
    return Values{
        Clamp(x, node.Float("min", -infinity), node.Float("max", infinity))};
  }
  std::vector<double> bounds = {-infinity, infinity};
  bool known = IsFloat(node.Type(0).dtype);
  for (int i = 1; i <= 2; ++i) {
    if (!node.Has(i)) continue;
    const Result<std::vector<double>> bound = node.Reals(i, "bound");
    if (bound.ok() && bound->size() == 1) {
      bounds[static_cast<size_t>(i - 1)] = (*bound)[0];
    } else {
      known = false;
    }
  }
  if (known && bounds[0] <= bounds[1]) {
    return Values{Clamp(x, bounds[0], bounds[1])};
  }
  Value y = x;
  if (node.Has(1)) y = Maximum(y, node.In(1));
  if (node.Has(2)) y = Minimum(y, node.In(2));
  return Values{y};
}

Result<Values> ConvertAdd(ImportedNode& node) { return Binary(node, Add); }
Result<Values> ConvertSub(ImportedNode& node) { return Binary(node, Sub); }
Result<Values> ConvertMul(ImportedNode& node) { return Binary(node, Mul); }
Result<Values> ConvertDiv(ImportedNode& node) {
  if (!IsFloat(node.Type(0).dtype)) return OfIntegers(node);
  return Binary(node, Div);
}
Result<Values> ConvertMod(ImportedNode& node) {
  if (!IsFloat(node.Type(0).dtype)) return OfIntegers(node);
  return Binary(node, node.Int("fmod", 0) != 0 ? Fmod : Remainder);
}

Result<Values> ConvertPow(ImportedNode& node) {
  const Value x = node.In(0);
  if (!IsFloat(node.Type(0).dtype)) return OfIntegers(node);
  // Cheaper, and differentiable everywhere.
  if (const auto power = FixedNumber(node, 1)) {
    if (*power == 1) return Values{x};
    if (*power == 2) return Values{Square(x)};
    if (*power == 3) return Values{Mul(x, Square(x))};
    if (*power > 0 && *power < 1 && IsSum(x)) {
      return Values{Root(x, 1 / *power)};
    }
    if (*power == 0.5) return Values{Sqrt(x)};
    if (*power == -0.5) return Values{Rsqrt(x)};
    if (*power == -1) return Values{Reciprocal(x)};
  }
  return Values{Pow(x, Cast(Second(node), node.Type(0).dtype))};
}

Result<Values> ConvertMax(ImportedNode& node) { return Joined(node, Maximum); }
Result<Values> ConvertMin(ImportedNode& node) { return Joined(node, Minimum); }
Result<Values> ConvertSum(ImportedNode& node) { return Joined(node, Add); }
Result<Values> ConvertMean(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Values sum, Joined(node, Add));
  return Values{MulScalar(sum[0], 1.0 / node.num_operands())};
}

Result<Values> ConvertAnd(ImportedNode& node) {
  return Binary(node, LogicalAnd);
}
Result<Values> ConvertOr(ImportedNode& node) { return Binary(node, LogicalOr); }
Result<Values> ConvertXor(ImportedNode& node) { return Binary(node, NotEqual); }
Result<Values> ConvertEqual(ImportedNode& node) { return Binary(node, Equal); }
Result<Values> ConvertLess(ImportedNode& node) { return Binary(node, Less); }
Result<Values> ConvertLessOrEqual(ImportedNode& node) {
  return Binary(node, LessEqual);
}
Result<Values> ConvertGreater(ImportedNode& node) {
  return Binary(node, Greater);
}
Result<Values> ConvertGreaterOrEqual(ImportedNode& node) {
  return Binary(node, GreaterEqual);
}

Result<Values> ConvertWhere(ImportedNode& node) {
  return Values{Where(node.In(0), node.In(1), node.In(2))};
}

Result<Values> ConvertCast(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(
      const DType dtype,
      DTypeOfElement(static_cast<int32_t>(node.Int("to", 0))));
  return Values{Cast(node.In(0), dtype)};
}
Result<Values> ConvertCastLike(ImportedNode& node) {
  return Values{Cast(node.In(0), node.Type(1).dtype)};
}
Result<Values> ConvertIdentity(ImportedNode& node) {
  return Values{node.In(0)};
}

Result<Values> ConvertDropout(ImportedNode& node) {
  const Value x = node.In(0);
  double p = node.Float("ratio", 0.5);
  if (node.Has(1)) {
    STOWAGE_ASSIGN_OR_RETURN(const auto ratio, node.Reals(1, "ratio"));
    if (ratio.size() != 1) return node.Wrong("has no single ratio");
    p = ratio[0];
  }
  if (!node.context().training || p == 0) {
    Values results = {x};
    if (node.Wants(1)) {
      results.push_back(Fill(node.graph(), 1, DType::kBool, node.ShapeOf(0)));
    }
    return results;
  }
  const Draws draws = NextDraws(node);
  const auto drop = [&](Value of) {
    return Dropout(of, draws.seed, draws.step, p, draws.id);
  };
  Values results = {drop(x)};
  if (node.Wants(1)) {  // drawn again: the same elements of ones
    const Value one = Fill(node.graph(), 1, x.dtype(), node.ShapeOf(0));
    const Value zero = Fill(node.graph(), 0, x.dtype(), node.ShapeOf(0));
    results.push_back(NotEqual(drop(one), zero));
  }
  return results;
}

}  // namespace stowage::onnx
