// layer_norm and its gradient, along the last axis. Mean and 1/sqrt(var + eps)
// of each row are results (f32, or f64 for f64 operands) that the gradient
// reads.

#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

Status CheckX(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  return CheckRankAtLeast(args, 0, "x", 1);
}

// The type of gamma and beta; of mean and rstd.
TensorType ParamType(const OpArgs& args) {
  return {args.type(0).dtype, {args.shape(0).back()}};
}
TensorType RowType(const OpArgs& args) {
  return {StatisticsType(args.type(0).dtype), LeadingDims(args.shape(0))};
}

Status CheckFollows(const OpArgs& args, int i, const char* label,
                    const TensorType& type) {
  return CheckType(args, i, label, type, "since " + Operand(args, 0, "x"));
}

TypesResult InferLayerNorm(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"eps", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckX(args));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 1, "gamma", ParamType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 2, "beta", ParamType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  return Typed(args, {args.type(0), RowType(args), RowType(args)});
}

TypesResult InferLayerNormGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckPartsAttr(args));
  STOWAGE_RETURN_IF_ERROR(CheckX(args));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 1, "gamma", ParamType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 2, "mean", RowType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 3, "rstd", RowType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 4, "dy", args.type(0)));
  if (args.op == OpKind::kLayerNormGradAdd) {
    STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 5, "residual", args.type(0)));
  }
  STOWAGE_ASSIGN_OR_RETURN(const TensorType sums, ParamSumsType(args));
  return Typed(args, {args.type(0), sums, sums});
}

}  // namespace

constinit const OpDef LayerNorm = {.num_inputs = 3,
                                   .infer = InferLayerNorm,
                                   .flops = FlopsPerOperandElement<8>,
                                   .may_overwrite = 0b1};
// dx over dy.
constinit const OpDef LayerNormGrad = {.num_inputs = 5,
                                       .infer = InferLayerNormGrad,
                                       .flops = FlopsPerOperandElement<14>,
                                       .may_overwrite = 0b10000};

// Likewise, or over what is added.
constinit const OpDef LayerNormGradAdd = {.num_inputs = 6,
                                          .infer = InferLayerNormGrad,
                                          .flops = FlopsPerOperandElement<15>,
                                          .may_overwrite = 0b110000};

}  // namespace stowage::op_defs
