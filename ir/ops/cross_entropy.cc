// cross_entropy and its gradient. The loss and each row's log-sum-exp are kept
// in f32, or in f64 for f64 logits; the gradient reads the log-sum-exp instead
// of probabilities.

#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

Status CheckLogitsAndLabels(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "logits", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "logits", 1));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 1, "labels", DTypes::kIndex));
  return CheckType(args, 1, "labels",
                   TensorType{args.type(1).dtype, LeadingDims(args.shape(0))},
                   "since " + Operand(args, 0, "logits"));
}

TensorType LossType(const OpArgs& args) {
  return {StatisticsType(args.type(0).dtype), {}};
}

TensorType LogSumExpType(const OpArgs& args) {
  return {StatisticsType(args.type(0).dtype), LeadingDims(args.shape(0))};
}

TypesResult InferCrossEntropy(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckLogitsAndLabels(args));
  return Typed(args, {LossType(args), LogSumExpType(args)});
}

TypesResult InferCrossEntropyGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckLogitsAndLabels(args));
  const std::string since = "since " + Operand(args, 0, "logits");
  STOWAGE_RETURN_IF_ERROR(
      CheckType(args, 2, "log_sum_exp", LogSumExpType(args), since));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 3, "dloss", LossType(args), since));
  return Typed(args, {args.type(0)});
}

}  // namespace

constinit const OpDef CrossEntropy = {
    .num_inputs = 2,
    .infer = InferCrossEntropy,
    .flops = FlopsPerOperandElement<kTranscendentalFlops + 3>};
constinit const OpDef CrossEntropyGrad = {
    .num_inputs = 4,
    .infer = InferCrossEntropyGrad,
    .flops = FlopsPerOperandElement<kTranscendentalFlops + 3>,
    .may_overwrite = 0b1};

}  // namespace stowage::op_defs
