// rms_norm and its gradient, along the last axis. 1/sqrt(mean(x^2) + eps) of each
// row is a result (f32, or f64 for f64 operands) that the gradient reads.

#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

// x and gamma.
Status CheckOperands(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 1));
  return CheckType(args, 1, "gamma",
                   {args.type(0).dtype, {args.shape(0).back()}},
                   "since " + Operand(args, 0, "x"));
}

TensorType RowType(const OpArgs& args) {
  return {StatisticsType(args.type(0).dtype), LeadingDims(args.shape(0))};
}

TypesResult InferRmsNorm(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"eps", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckOperands(args));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  return Typed(args, {args.type(0), RowType(args)});
}

TypesResult InferRmsNormGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckPartsAttr(args));
  STOWAGE_RETURN_IF_ERROR(CheckOperands(args));
  const std::string since = "since " + Operand(args, 0, "x");
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 2, "rstd", RowType(args), since));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 3, "dy", args.type(0), since));
  STOWAGE_ASSIGN_OR_RETURN(const TensorType sums, ParamSumsType(args));
  return Typed(args, {args.type(0), sums});
}

}  // namespace

constinit const OpDef RmsNorm = {.num_inputs = 2,
                                 .infer = InferRmsNorm,
                                 .flops = FlopsPerOperandElement<4>,
                                 .may_overwrite = 0b1};
// dx over x or dy, of which a row is read to its end before it is written.
constinit const OpDef RmsNormGrad = {.num_inputs = 4,
                                     .infer = InferRmsNormGrad,
                                     .flops = FlopsPerOperandElement<10>,
                                     .may_overwrite = 0b1001};

}  // namespace stowage::op_defs
