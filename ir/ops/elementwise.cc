// Ops that compute each element of a result from the elements at its place: of one operand,
// of two, a choice between two, another element type, and gated units.

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {

// Elementwise ops of one operand: x -> y, of x's type.

namespace {

template <DTypes kTypes>
TypesResult InferUnary(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", kTypes));
  return Typed(args, {args.type(0)});
}

// Kernels read an element before they write it, so that results may overwrite operands.
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

// Elementwise ops of two operands of one type: arithmetic, comparisons, logic,
// and the gradients of unary ops. The op functions of ir/ops.h put `broadcast`
// views in front where shapes differ.

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

// where: a choice between two operands, element by element.

namespace {

TypesResult InferWhere(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "condition", DTypes::kBool));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 1, "a", 2, "b"));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 0, "condition",
                                    TensorType{DType::kBool, args.shape(1)},
                                    "since " + Operand(args, 1, "a")));
  return Typed(args, {args.type(1)});
}

}  // namespace

constinit const OpDef Where = {.num_inputs = 3,
                               .infer = InferWhere,
                               .accepts = AcceptAnyStrides,
                               .may_overwrite = 0b111};

// cast: the same numbers in another element type.

namespace {

TypesResult InferCast(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"dtype", AttrKind::kDType}}));
  return Typed(args, {TensorType{args.attrs.Type("dtype"), args.shape(0)}});
}

}  // namespace

constinit const OpDef Cast = {
    .infer = InferCast, .accepts = AcceptAnyStrides, .may_overwrite = 0b1};

// glu: gated linear units, activation(gate) * up, and their gradient.

namespace {

constexpr int64_t kActivations = 3;  // GluActivation

Status CheckOperands(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"activation", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "gate", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 1, "up", 0, "gate"));
  const int64_t activation = args.attrs.Int("activation");
  if (activation >= 0 && activation < kActivations) return {};
  return args.Fail(StrCat("activation is ", activation,
                          "; expected 0 (silu), 1 (gelu_tanh) or 2 "
                          "(gelu_erf)"));
}

TypesResult InferGlu(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckOperands(args));
  return Typed(args, {args.type(0)});
}

TypesResult InferGluGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckOperands(args));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 2, "dy", 0, "gate"));
  return Typed(args, {args.type(0), args.type(0)});
}

}  // namespace

constinit const OpDef Glu = {
    .num_inputs = 2,
    .infer = InferGlu,
    .flops = FlopsPerResultElement<kTranscendentalFlops + 4>,
    .accepts = AcceptAnyStrides,
    .may_overwrite = 0b11};
// dgate may overwrite any operand: an element of each is read before one is written.
constinit const OpDef GluGrad = {
    .num_inputs = 3,
    .infer = InferGluGrad,
    .flops = FlopsPerResultElement<kTranscendentalFlops + 10>,
    .may_overwrite = 0b111};

}  // namespace stowage::op_defs
