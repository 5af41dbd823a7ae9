// dropout: a mask that is computed where it is used (Philox) and never stored.

#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

TypesResult InferDropout(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrs(args, {{"p", AttrKind::kReal}, {"id", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  const TensorType scalar = {DType::kI64, {}};
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 1, "seed", scalar, "a scalar"));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 2, "step", scalar, "a scalar"));
  STOWAGE_RETURN_IF_ERROR(CheckFraction(args, "p"));
  return Typed(args, {args.type(0)});
}

}  // namespace

constinit const OpDef Dropout = {.num_inputs = 3,
                                 .infer = InferDropout,
                                 .flops = FlopsPerResultElement<2>,
                                 .accepts = AcceptAnyStrides,
                                 .may_overwrite = 0b1};

}  // namespace stowage::op_defs
