// where: a choice between two operands, element by element.

#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
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

}  // namespace stowage::op_defs
