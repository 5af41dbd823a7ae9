// cast: the same numbers in another element type.

#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

TypesResult InferCast(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"dtype", AttrKind::kDType}}));
  return Typed(args, {TensorType{args.attrs.Type("dtype"), args.shape(0)}});
}

}  // namespace

constinit const OpDef Cast = {
    .infer = InferCast, .accepts = AcceptAnyStrides, .may_overwrite = 0b1};

}  // namespace stowage::op_defs
