// Elementwise ops, and chains of them as one node.

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "compile/ops.h"
#include "compile/scalar.h"
#include "ir/fused.h"

namespace stowage::compile {
namespace {

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
