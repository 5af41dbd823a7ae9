// Elementwise ops of two operands of one type: arithmetic, comparisons, logic,
// and the gradients of unary ops. The op functions of ir/ops.h put `broadcast`
// views in front where shapes differ.

#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

template <DTypes kTypes>
Status CheckOperands(const OpArgs& args, const char* first,
                     const char* second) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, first, kTypes));
  return CheckSameType(args, 0, first, 1, second);
}

template <DTypes kTypes>
TypesResult InferBinary(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckOperands<kTypes>(args, "a", "b"));
  return Typed(args, {args.type(0)});
}

template <DTypes kTypes>
TypesResult InferComparison(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckOperands<kTypes>(args, "a", "b"));
  return Typed(args, {TensorType{DType::kBool, args.shape(0)}});
}

TypesResult InferGradFromOutput(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckOperands<DTypes::kFloat>(args, "y", "dy"));
  return Typed(args, {args.type(0)});
}

TypesResult InferGradFromInput(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckOperands<DTypes::kFloat>(args, "x", "dy"));
  return Typed(args, {args.type(0)});
}

// From the output, with attributes.
TypesResult InferLeakyReluGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"slope", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "y", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "y", 1, "dy"));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "slope"));
  return Typed(args, {args.type(0)});
}

TypesResult InferEluGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(
      args, {{"alpha", AttrKind::kReal}, {"scale", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "y", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "y", 1, "dy"));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "alpha"));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "scale"));
  return Typed(args, {args.type(0)});
}

TypesResult InferClampGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"min", AttrKind::kReal}, {"max", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "y", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "y", 1, "dy"));
  STOWAGE_RETURN_IF_ERROR(CheckBounds(args));
  return Typed(args, {args.type(0)});
}

constexpr OpDef Elementwise(OpDef::InferFn infer, OpDef::FlopsFn flops) {
  return {.num_inputs = 2,
          .infer = infer,
          .flops = flops,
          .accepts = AcceptAnyStrides,
          .may_overwrite = 0b11};
}

template <DTypes kTypes, int kFlops>
constexpr OpDef BinaryDef() {
  return Elementwise(InferBinary<kTypes>, FlopsPerResultElement<kFlops>);
}

template <DTypes kTypes>
constexpr OpDef ComparisonDef() {
  return Elementwise(InferComparison<kTypes>, FlopsPerResultElement<1>);
}

}  // namespace

constinit const OpDef Add = BinaryDef<DTypes::kNumeric, 1>();
constinit const OpDef Sub = BinaryDef<DTypes::kNumeric, 1>();
constinit const OpDef Mul = BinaryDef<DTypes::kNumeric, 1>();
constinit const OpDef Div = BinaryDef<DTypes::kFloat, 1>();
constinit const OpDef Pow =
    BinaryDef<DTypes::kFloat, 2 * kTranscendentalFlops>();
constinit const OpDef Maximum = BinaryDef<DTypes::kNumeric, 1>();
constinit const OpDef Minimum = BinaryDef<DTypes::kNumeric, 1>();
constinit const OpDef Equal = ComparisonDef<DTypes::kAny>();
constinit const OpDef NotEqual = ComparisonDef<DTypes::kAny>();
constinit const OpDef Less = ComparisonDef<DTypes::kNumeric>();
constinit const OpDef LessEqual = ComparisonDef<DTypes::kNumeric>();
constinit const OpDef Greater = ComparisonDef<DTypes::kNumeric>();
constinit const OpDef GreaterEqual = ComparisonDef<DTypes::kNumeric>();
constinit const OpDef LogicalAnd = BinaryDef<DTypes::kBool, 0>();
constinit const OpDef LogicalOr = BinaryDef<DTypes::kBool, 0>();
constinit const OpDef Remainder = BinaryDef<DTypes::kFloat, 4>();
constinit const OpDef Fmod = BinaryDef<DTypes::kFloat, 3>();

constinit const OpDef ReluGrad =
    Elementwise(InferGradFromOutput, FlopsPerResultElement<1>);
constinit const OpDef SigmoidGrad =
    Elementwise(InferGradFromOutput, FlopsPerResultElement<3>);
constinit const OpDef TanhGrad =
    Elementwise(InferGradFromOutput, FlopsPerResultElement<3>);
constinit const OpDef SiluGrad = Elementwise(
    InferGradFromInput, FlopsPerResultElement<kTranscendentalFlops + 7>);
constinit const OpDef GeluTanhGrad = Elementwise(
    InferGradFromInput, FlopsPerResultElement<kTranscendentalFlops + 16>);
constinit const OpDef GeluErfGrad = Elementwise(
    InferGradFromInput, FlopsPerResultElement<2 * kTranscendentalFlops + 9>);
constinit const OpDef MishGrad = Elementwise(
    InferGradFromInput, FlopsPerResultElement<kTranscendentalFlops + 13>);
constinit const OpDef HardSwishGrad =
    Elementwise(InferGradFromInput, FlopsPerResultElement<5>);
constinit const OpDef LeakyReluGrad =
    Elementwise(InferLeakyReluGrad, FlopsPerResultElement<2>);
constinit const OpDef EluGrad =
    Elementwise(InferEluGrad, FlopsPerResultElement<3>);
constinit const OpDef ClampGrad =
    Elementwise(InferClampGrad, FlopsPerResultElement<2>);

}  // namespace stowage::op_defs
