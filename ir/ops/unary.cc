// Elementwise ops of one operand: x -> y, of x's type.

#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

template <DTypes kTypes>
TypesResult InferUnary(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", kTypes));
  return Typed(args, {args.type(0)});
}

// Kernels read an element before they write it, hence the overwriting.
template <DTypes kTypes, int kFlops>
constexpr OpDef UnaryDef() {
  return {.infer = InferUnary<kTypes>,
          .flops = FlopsPerResultElement<kFlops>,
          .accepts = AcceptAnyStrides,
          .may_overwrite = 0b1};
}

}  // namespace

constinit const OpDef Neg = UnaryDef<DTypes::kNumeric, 1>();
constinit const OpDef Abs = UnaryDef<DTypes::kNumeric, 1>();
constinit const OpDef Sign = UnaryDef<DTypes::kNumeric, 1>();
constinit const OpDef Exp = UnaryDef<DTypes::kFloat, kTranscendentalFlops>();
constinit const OpDef Log = UnaryDef<DTypes::kFloat, kTranscendentalFlops>();
constinit const OpDef Sqrt = UnaryDef<DTypes::kFloat, 1>();
constinit const OpDef Rsqrt = UnaryDef<DTypes::kFloat, 2>();
constinit const OpDef Square = UnaryDef<DTypes::kFloat, 1>();
constinit const OpDef Reciprocal = UnaryDef<DTypes::kFloat, 1>();
constinit const OpDef Sin = UnaryDef<DTypes::kFloat, kTranscendentalFlops>();
constinit const OpDef Cos = UnaryDef<DTypes::kFloat, kTranscendentalFlops>();
constinit const OpDef Relu = UnaryDef<DTypes::kFloat, 1>();
constinit const OpDef Silu =
    UnaryDef<DTypes::kFloat, kTranscendentalFlops + 3>();
constinit const OpDef Sigmoid =
    UnaryDef<DTypes::kFloat, kTranscendentalFlops + 2>();
constinit const OpDef Tanh = UnaryDef<DTypes::kFloat, kTranscendentalFlops>();
constinit const OpDef GeluTanh =
    UnaryDef<DTypes::kFloat, kTranscendentalFlops + 7>();
constinit const OpDef GeluErf =
    UnaryDef<DTypes::kFloat, kTranscendentalFlops + 4>();
constinit const OpDef LogicalNot = UnaryDef<DTypes::kBool, 0>();

}  // namespace stowage::op_defs
