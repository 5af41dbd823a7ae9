// glu: gated linear units, activation(gate) * up, and their gradient.

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
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
// dgate over any of them: an element of each is read before one is written.
constinit const OpDef GluGrad = {
    .num_inputs = 3,
    .infer = InferGluGrad,
    .flops = FlopsPerResultElement<kTranscendentalFlops + 10>,
    .may_overwrite = 0b111};

}  // namespace stowage::op_defs
