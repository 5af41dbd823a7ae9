#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "compile/ops.h"
#include "ir/fused.h"
#include "ir/tensor_type.h"

namespace stowage::compile {
namespace {

// In patterns, $0 and $1 are the arguments and $name an attribute.
struct ScalarPattern {
  OpKind op;
  std::string_view text;
};

constexpr ScalarPattern kPatterns[] = {
    {OpKind::kCopy, "$0"},
    {OpKind::kReload, "$0"},
    {OpKind::kOffload, "$0"},
    {OpKind::kNeg, "-$0"},
    {OpKind::kAbs, "fabs@($0)"},
    {OpKind::kSign, "sign@($0)"},
    {OpKind::kExp, "exp@($0)"},
    {OpKind::kLog, "log@($0)"},
    {OpKind::kSqrt, "sqrt@($0)"},
    {OpKind::kRsqrt, "1 / sqrt@($0)"},
    {OpKind::kSquare, "$0 * $0"},
    {OpKind::kReciprocal, "1 / $0"},
    {OpKind::kSin, "sin@($0)"},
    {OpKind::kCos, "cos@($0)"},
    {OpKind::kRelu, "$0 > 0 || $0 != $0 ? $0 : 0"},
    {OpKind::kSilu, "$0 / (1 + exp@(-$0))"},
    {OpKind::kSigmoid, "1 / (1 + exp@(-$0))"},
    {OpKind::kTanh, "tanh@($0)"},
    {OpKind::kGeluTanh, "gelu_tanh@($0)"},
    {OpKind::kGeluErf, "gelu_erf@($0)"},
    {OpKind::kLogicalNot, "$0 == 0"},
    {OpKind::kExpm1, "expm1@($0)"},
    {OpKind::kLog1p, "log1p@($0)"},
    {OpKind::kErf, "erf@($0)"},
    {OpKind::kFloor, "floor@($0)"},
    {OpKind::kCeil, "ceil@($0)"},
    {OpKind::kRound, "rint@($0)"},
    {OpKind::kSoftplus, "maximum@($0, 0) + log1p@(exp@(-fabs@($0)))"},
    {OpKind::kMish, "mish@($0)"},
    {OpKind::kHardSwish, "hard_swish@($0)"},
    {OpKind::kLeakyRelu, "$0 > 0 ? $0 : $slope * $0"},
    {OpKind::kElu, "$scale * ($0 > 0 ? $0 : $alpha * expm1@($0))"},
    {OpKind::kClamp, "minimum@(maximum@($0, $min), $max)"},
    {OpKind::kAdd, "$0 + $1"},
    {OpKind::kSub, "$0 - $1"},
    {OpKind::kMul, "$0 * $1"},
    {OpKind::kDiv, "$0 / $1"},
    {OpKind::kPow, "pow@($0, $1)"},
    {OpKind::kMaximum, "maximum@($0, $1)"},
    {OpKind::kMinimum, "minimum@($0, $1)"},
    {OpKind::kEqual, "$0 == $1"},
    {OpKind::kNotEqual, "$0 != $1"},
    {OpKind::kLess, "$0 < $1"},
    {OpKind::kLessEqual, "$0 <= $1"},
    {OpKind::kGreater, "$0 > $1"},
    {OpKind::kGreaterEqual, "$0 >= $1"},
    {OpKind::kLogicalAnd, "$0 != 0 && $1 != 0"},
    {OpKind::kLogicalOr, "$0 != 0 || $1 != 0"},
    {OpKind::kRemainder, "remainder_floor@($0, $1)"},
    {OpKind::kFmod, "fmod@($0, $1)"},
    {OpKind::kReluGrad, "$0 > 0 ? $1 : 0"},
    {OpKind::kSigmoidGrad, "$1 * ($0 * (1 - $0))"},
    {OpKind::kTanhGrad, "$1 * (1 - $0 * $0)"},
    {OpKind::kSiluGrad, "$1 * silu_slope@($0)"},
    {OpKind::kGeluTanhGrad, "$1 * gelu_tanh_slope@($0)"},
    {OpKind::kGeluErfGrad, "$1 * gelu_erf_slope@($0)"},
    {OpKind::kMishGrad, "$1 * mish_slope@($0)"},
    {OpKind::kHardSwishGrad, "$1 * hard_swish_slope@($0)"},
    {OpKind::kLeakyReluGrad, "$0 > 0 ? $1 : $1 * $slope"},
    {OpKind::kEluGrad, "$1 * ($0 > 0 ? $scale : $0 + $scale * $alpha)"},
    {OpKind::kClampGrad, "$0 > $min && $0 < $max ? $1 : 0"},
    {OpKind::kWhere, "$0 != 0 ? $1 : $2"},
};

// Patterns for integers that differ from those above.
constexpr ScalarPattern kIntegerPatterns[] = {
    {OpKind::kAbs, "$0 < 0 ? -$0 : $0"},
    {OpKind::kSign, "($0 > 0) - ($0 < 0)"},
    {OpKind::kRelu, "$0 > 0 ? $0 : 0"},
    {OpKind::kMaximum, "$0 > $1 ? $0 : $1"},
    {OpKind::kMinimum, "$0 < $1 ? $0 : $1"},
    {OpKind::kClamp, "$0 < $min ? $min : $0 > $max ? $max : $0"},
};

// Patterns for vectors in place of those with conditional expressions.
constexpr ScalarPattern kVectorPatterns[] = {
    {OpKind::kRelu, "maximum@($0, splat@(0))"},
    {OpKind::kReluGrad, "select@($0 > 0, $1, splat@(0))"},
    {OpKind::kLeakyRelu, "select@($0 > 0, $0, $slope * $0)"},
    {OpKind::kLeakyReluGrad, "select@($0 > 0, $1, $1 * $slope)"},
    {OpKind::kClamp, "minimum@(maximum@($0, splat@($min)), splat@($max))"},
    {OpKind::kClampGrad,
     "select@($0 > $min, select@($0 < $max, $1, splat@(0)), splat@(0))"},
};

std::optional<std::string_view> PatternOf(OpKind op, DType dtype,
                                          bool is_vector = false) {
  if (is_vector) {
    for (const ScalarPattern& pattern : kVectorPatterns) {
      if (pattern.op == op) return pattern.text;
    }
  }
  if (!IsFloat(dtype)) {
    for (const ScalarPattern& pattern : kIntegerPatterns) {
      if (pattern.op == op) return pattern.text;
    }
  }
  for (const ScalarPattern& pattern : kPatterns) {
    if (pattern.op == op) return pattern.text;
  }
  return std::nullopt;
}

// The name after a `$`, of letters.
std::string_view NameAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && 'a' <= text[end] && text[end] <= 'z') ++end;
  return text.substr(at, end - at);
}

std::string_view LocalType(const Tensor& tensor) {
  return IsFloat(tensor.dtype()) ? "real" : CType(tensor.dtype());
}

// Operands and then results, for ForElements.
std::vector<const Tensor*> AllTensors(const Kernel& k) {
  std::vector<const Tensor*> all;
  for (size_t i = 0; i < k.num_inputs(); ++i) all.push_back(&k.in(i));
  for (size_t r = 0; r < k.num_outputs(); ++r) all.push_back(&k.out(r));
  return all;
}

// Loops over the elements; `body` gets a variable for each operand, read before anything is
// written, and the position in each result.
void ForEachElement(
    Kernel& k, const std::function<void(std::span<const Expr> args,
                                        std::span<const Expr> results)>& body) {
  const std::vector<const Tensor*> all = AllTensors(k);
  k.ForElements(all, [&](std::span<const Expr> at) {
    std::vector<Expr> args;
    for (size_t i = 0; i < k.num_inputs(); ++i) {
      args.push_back(StrCat("a", i));
      k.Line("const ", LocalType(k.in(i)), " ", args.back(), " = ",
             k.Load(k.in(i), at[i]), ";");
    }
    body(args, at.subspan(k.num_inputs()));
  });
}

// The activation of a glu, as an op.
OpKind GluActivationOf(const Kernel& k) {
  constexpr std::array kActivations = {OpKind::kSilu, OpKind::kGeluTanh,
                                       OpKind::kGeluErf};
  return kActivations[static_cast<size_t>(k.Int("activation"))];
}
std::string_view GluSlopeOf(const Kernel& k) {
  constexpr std::array<std::string_view, 3> kSlopes = {
      "silu_slope@", "gelu_tanh_slope@", "gelu_erf_slope@"};
  return kSlopes[static_cast<size_t>(k.Int("activation"))];
}
Expr GluActivation(const Kernel& k, const Expr& gate) {
  return *ScalarExpr(GluActivationOf(k), k.attrs(), std::array{gate},
                     k.in(0).dtype(), k);
}

}  // namespace

bool IsScalarOp(OpKind op) { return PatternOf(op, DType::kF32).has_value(); }

std::optional<Expr> ScalarExpr(OpKind op, const Attrs& attrs,
                               std::span<const Expr> args, DType dtype,
                               const Kernel& k) {
  const std::optional<std::string_view> pattern =
      PatternOf(op, dtype, k.width() > 1);
  if (!pattern) return std::nullopt;
  Expr expr;
  for (size_t i = 0; i < pattern->size(); ++i) {
    const char c = (*pattern)[i];
    if (c != '$') {
      expr += c;
      continue;
    }
    const char next = (*pattern)[i + 1];
    if ('0' <= next && next <= '9') {
      expr += args[static_cast<size_t>(next - '0')];
      ++i;
      continue;
    }
    const std::string_view name = NameAt(*pattern, i + 1);
    expr += k.Real(attrs.Float(name));
    i += name.size();
  }
  return expr;
}

Expr RoundedTo(DType dtype, const Expr& value) {
  if (dtype == DType::kF16) {
    return StrCat("half_to_float(float_to_half(", value, "))");
  }
  if (dtype == DType::kBF16) {
    return StrCat("bfloat16_to_float(float_to_bfloat16(", value, "))");
  }
  return value;
}

void WriteElementwise(Kernel& k) {
  ForEachElement(k, [&](std::span<const Expr> args, std::span<const Expr> at) {
    k.Store(k.out(0), at[0],
            *ScalarExpr(k.op(), k.attrs(), args, k.in(0).dtype(), k));
  });
}

void WriteCast(Kernel& k) {
  const DType from = k.in(0).dtype(), to = k.out(0).dtype();
  ForEachElement(k, [&](std::span<const Expr> args, std::span<const Expr> at) {
    if (IsFloat(to)) {
      k.Store(k.out(0), at[0],
              IsFloat(from) ? args[0] : StrCat("(real)", args[0]));
    } else if (to == DType::kBool) {
      k.Store(k.out(0), at[0], StrCat(args[0], " != 0"));
    } else {
      k.RefuseVectors();
      k.Line(k.out(0).name(), "[", at[0], "] = (", CType(to), ")", args[0],
             ";");
    }
  });
}

void WriteGlu(Kernel& k) {
  ForEachElement(k, [&](std::span<const Expr> args, std::span<const Expr> at) {
    k.Store(k.out(0), at[0],
            StrCat("(", GluActivation(k, args[0]), ") * ", args[1]));
  });
}

void WriteGluGrad(Kernel& k) {
  ForEachElement(k, [&](std::span<const Expr> args, std::span<const Expr> at) {
    k.Store(k.out(0), at[0],
            StrCat(args[2], " * ", args[1], " * ", GluSlopeOf(k), "(", args[0],
                   ")"));
    k.Store(k.out(1), at[1],
            StrCat(args[2], " * (", GluActivation(k, args[0]), ")"));
  });
}

void WriteFusedElementwise(Kernel& k) {
  ForEachElement(k, [&](std::span<const Expr> args, std::span<const Expr> at) {
    WriteChain(k, args, at);
  });
}

void WriteChain(Kernel& k, std::span<const Expr> leaves,
                std::span<const Expr> at) {
  const FusedChain chain = ChainOf(ProgramOf(k.attrs()));
  Expr value = leaves[0];
  for (const FusedStep& step : chain.steps()) {
    std::vector<Expr> operands = {value};
    if (step.is_binary) {
      operands.push_back(
          step.operand < 0 ? value : leaves[static_cast<size_t>(step.operand)]);
      if (step.is_second) std::swap(operands[0], operands[1]);
    }
    const Expr next = k.Fresh("v");
    k.Line(
        "const real ", next, " = ",
        RoundedTo(k.out(0).dtype(), *ScalarExpr(step.op, *step.attrs, operands,
                                                k.out(0).dtype(), k)),
        ";");
    value = next;
    if (step.result < 0) continue;
    const auto result = static_cast<size_t>(step.result);
    k.Store(k.out(result), at[result], value);
  }
}

}  // namespace stowage::compile
