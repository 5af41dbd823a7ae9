// join_weight, split_update: an f32 weight that is kept as a bf16 number and the 16 bits
// that this lacks (math/split_master.h).

#include "ir/dtype.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

// That the first two operands are the parts of a weight.
Status CheckParts(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 0, "w", {DType::kBF16, args.shape(0)},
                                    "the upper part of an f32"));
  return CheckType(args, 1, "delta", {DType::kI16, args.shape(0)},
                   "since " + Operand(args, 0, "w"));
}

TypesResult InferJoinWeight(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckParts(args));
  return Typed(args, {{DType::kF32, args.shape(0)}});
}

TypesResult InferSplitUpdate(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckParts(args));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 2, "x", {DType::kF32, args.shape(0)},
                                    "since " + Operand(args, 0, "w")));
  return Typed(args, {args.type(0), args.type(1)});
}

}  // namespace

constinit const OpDef JoinWeight = {.num_inputs = 2, .infer = InferJoinWeight};
constinit const OpDef SplitUpdate = {
    .num_inputs = 3, .infer = InferSplitUpdate, .updates = 2};

}  // namespace stowage::op_defs
