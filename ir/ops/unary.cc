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

template <int kFlops>
constexpr OpDef WithAttrs(OpDef::InferFn infer) {
  return {.infer = infer,
          .flops = FlopsPerResultElement<kFlops>,
          .accepts = AcceptAnyStrides,
          .may_overwrite = 0b1};
}

TypesResult InferLeakyRelu(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"slope", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "slope"));
  return Typed(args, {args.type(0)});
}

TypesResult InferElu(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(
      args, {{"alpha", AttrKind::kReal}, {"scale", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "alpha"));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "scale"));
  return Typed(args, {args.type(0)});
}

TypesResult InferClamp(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"min", AttrKind::kReal}, {"max", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckBounds(args));
  return Typed(args, {args.type(0)});
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
constinit const OpDef Expm1 = UnaryDef<DTypes::kFloat, kTranscendentalFlops>();
constinit const OpDef Log1p = UnaryDef<DTypes::kFloat, kTranscendentalFlops>();
constinit const OpDef Erf = UnaryDef<DTypes::kFloat, kTranscendentalFlops>();
constinit const OpDef Floor = UnaryDef<DTypes::kFloat, 1>();
constinit const OpDef Ceil = UnaryDef<DTypes::kFloat, 1>();
constinit const OpDef Round = UnaryDef<DTypes::kFloat, 1>();
constinit const OpDef Softplus =
    UnaryDef<DTypes::kFloat, 2 * kTranscendentalFlops + 3>();
constinit const OpDef Mish =
    UnaryDef<DTypes::kFloat, kTranscendentalFlops + 6>();
constinit const OpDef HardSwish = UnaryDef<DTypes::kFloat, 4>();
constinit const OpDef LeakyRelu = WithAttrs<2>(InferLeakyRelu);
constinit const OpDef Elu = WithAttrs<kTranscendentalFlops + 3>(InferElu);
constinit const OpDef Clamp = WithAttrs<2>(InferClamp);

}  // namespace stowage::op_defs
