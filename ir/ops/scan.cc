// cumsum: sums along an axis up to each element.

#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

TypesResult InferCumSum(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"axis", AttrKind::kInt},
                                            {"exclusive", AttrKind::kFlag},
                                            {"reverse", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kNumeric));
  STOWAGE_RETURN_IF_ERROR(CheckAxis(args, 0, "x"));
  return Typed(args, {args.type(0)});
}

}  // namespace

constinit const OpDef CumSum = {.infer = InferCumSum,
                                .flops = FlopsPerResultElement<1>,
                                .may_overwrite = 0b1};

}  // namespace stowage::op_defs
