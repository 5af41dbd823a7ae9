// batch_norm and its gradient: each channel, axis 1, is normalized over all other
// axes. Mean and variance are results (f32, or f64 for f64 operands) that the
// gradient reads, and running averages too.

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

Status CheckX(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"eps", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 2));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  const Shape& shape = args.shape(0);
  if (shape.num_elements() / shape[1] > 1) return {};
  return args.Fail(StrCat(Operand(args, 0, "x"),
                          ", which is 1 number for each of its ", shape[1],
                          " channels and has no variance; expected a batch of "
                          "at least 2 examples or positions"));
}

// The type of gamma and beta; of mean and variance.
TensorType ParamType(const OpArgs& args) {
  return {args.type(0).dtype, {args.shape(0)[1]}};
}
TensorType ChannelType(const OpArgs& args) {
  return {StatisticsType(args.type(0).dtype), {args.shape(0)[1]}};
}

Status CheckFollows(const OpArgs& args, int i, const char* label,
                    const TensorType& type) {
  return CheckType(args, i, label, type, "since " + Operand(args, 0, "x"));
}

TypesResult InferBatchNorm(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckX(args));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 1, "gamma", ParamType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 2, "beta", ParamType(args)));
  return Typed(args, {args.type(0), ChannelType(args), ChannelType(args)});
}

TypesResult InferBatchNormGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckX(args));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 1, "gamma", ParamType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 2, "mean", ChannelType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 3, "variance", ChannelType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 4, "dy", args.type(0)));
  return Typed(args, {args.type(0), ParamType(args), ParamType(args)});
}

}  // namespace

constinit const OpDef BatchNorm = {.num_inputs = 3,
                                   .infer = InferBatchNorm,
                                   .flops = FlopsPerOperandElement<8>,
                                   .may_overwrite = 0b1};
// dx over x or dy.
constinit const OpDef BatchNormGrad = {.num_inputs = 5,
                                       .infer = InferBatchNormGrad,
                                       .flops = FlopsPerOperandElement<14>,
                                       .may_overwrite = 0b10001};

}  // namespace stowage::op_defs
