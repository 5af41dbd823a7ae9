// Normalizations: by batch, layer, root mean square, and neighbouring channels.

#include <cmath>
#include <span>
#include <string_view>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"
#include "ir/windows.h"

namespace stowage::op_defs {
namespace {

// Operand i is of `type`, which follows from operand 0.
Status CheckFollows(const OpArgs& args, int i, const char* label,
                    const TensorType& type) {
  return CheckType(args, i, label, type, "since " + Operand(args, 0, "x"));
}

// Statistics of the rows of operand 0.
TensorType RowType(const OpArgs& args) {
  return {StatisticsType(args.type(0).dtype), LeadingDims(args.shape(0))};
}

}  // namespace

// batch_norm and its gradient: each channel, axis 1, is normalized over all other
// axes. Mean and variance are results (f32, or f64 for f64 operands) that the
// gradient reads, and running averages too.

namespace {

Status CheckBatch(const OpArgs& args) {
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
TensorType ChannelParamType(const OpArgs& args) {
  return {args.type(0).dtype, {args.shape(0)[1]}};
}
TensorType ChannelType(const OpArgs& args) {
  return {StatisticsType(args.type(0).dtype), {args.shape(0)[1]}};
}

TypesResult InferBatchNorm(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckBatch(args));
  STOWAGE_RETURN_IF_ERROR(
      CheckFollows(args, 1, "gamma", ChannelParamType(args)));
  STOWAGE_RETURN_IF_ERROR(
      CheckFollows(args, 2, "beta", ChannelParamType(args)));
  return Typed(args, {args.type(0), ChannelType(args), ChannelType(args)});
}

TypesResult InferBatchNormGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckBatch(args));
  STOWAGE_RETURN_IF_ERROR(
      CheckFollows(args, 1, "gamma", ChannelParamType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 2, "mean", ChannelType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 3, "variance", ChannelType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 4, "dy", args.type(0)));
  return Typed(args,
               {args.type(0), ChannelParamType(args), ChannelParamType(args)});
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

// layer_norm and its gradient, along the last axis. Mean and 1/sqrt(var + eps)
// of each row are results (f32, or f64 for f64 operands) that the gradient
// reads.

namespace {

Status CheckRows(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  return CheckRankAtLeast(args, 0, "x", 1);
}

// The type of gamma and beta.
TensorType RowParamType(const OpArgs& args) {
  return {args.type(0).dtype, {args.shape(0).back()}};
}
TypesResult InferLayerNorm(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"eps", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckRows(args));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 1, "gamma", RowParamType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 2, "beta", RowParamType(args)));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  return Typed(args, {args.type(0), RowType(args), RowType(args)});
}

TypesResult InferLayerNormGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckPartsAttr(args));
  STOWAGE_RETURN_IF_ERROR(CheckRows(args));
  STOWAGE_RETURN_IF_ERROR(CheckFollows(args, 1, "gamma", RowParamType(args)));
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

// Likewise, or over the addend.
constinit const OpDef LayerNormGradAdd = {.num_inputs = 6,
                                          .infer = InferLayerNormGrad,
                                          .flops = FlopsPerOperandElement<15>,
                                          .may_overwrite = 0b110000};

// rms_norm and its gradient, along the last axis. 1/sqrt(mean(x^2) + eps) of each
// row is a result (f32, or f64 for f64 operands) that the gradient reads.

namespace {

// x and gamma.
Status CheckNormOperands(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 1));
  return CheckType(args, 1, "gamma",
                   {args.type(0).dtype, {args.shape(0).back()}},
                   "since " + Operand(args, 0, "x"));
}

TypesResult InferRmsNorm(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"eps", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckNormOperands(args));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "eps"));
  return Typed(args, {args.type(0), RowType(args)});
}

TypesResult InferRmsNormGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckPartsAttr(args));
  STOWAGE_RETURN_IF_ERROR(CheckNormOperands(args));
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

// local_response_norm and its gradient: each element over a power of the sum of
// squares of its channel, axis 1, and those around it (Krizhevsky et al. 2012, section
// 3.3). The gradient recomputes the sums: saved, they would be as large as x.

namespace {

constexpr int64_t kLargestSize = (int64_t{1} << 31) - 1;

Status CheckLocal(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"size", AttrKind::kInt},
                                            {"alpha", AttrKind::kReal},
                                            {"beta", AttrKind::kReal},
                                            {"bias", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 2));
  const int64_t size = args.attrs.Int("size");
  if (size < 1 || size > kLargestSize) {
    return args.Fail(
        StrCat("size is ", size, "; expected 1 to ", kLargestSize));
  }
  for (const std::string_view name : {"alpha", "beta", "bias"}) {
    STOWAGE_RETURN_IF_ERROR(CheckReal(
        args, name, std::isfinite(args.attrs.Float(name)), "a finite number"));
  }
  return {};
}

TypesResult InferLocalResponseNorm(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckLocal(args));
  return Typed(args, {args.type(0)});
}

TypesResult InferLocalResponseNormGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckLocal(args));
  STOWAGE_RETURN_IF_ERROR(
      CheckType(args, 1, "dy", args.type(0), "since " + Operand(args, 0, "x")));
  return Typed(args, {args.type(0)});
}

// `sums` over the window of each element, the power, and `others`.
double LocalFlops(const OpArgs& args, int sums, int others) {
  const ChannelWindow window =
      ChannelWindow::Of(args.attrs.Int("size"), args.shape(0)[1]);
  return Elements(args.type(0)) * (sums * static_cast<double>(window.length()) +
                                   2 * kTranscendentalFlops + others);
}

}  // namespace

// A kernel holds the squares of the channels that later ones need.
constinit const OpDef LocalResponseNorm = {
    .infer = InferLocalResponseNorm,
    .flops = [](const OpArgs& args,
                std::span<const TensorType>) { return LocalFlops(args, 2, 3); },
    .may_overwrite = 0b1};
// dx over x or dy, for the same reason.
constinit const OpDef LocalResponseNormGrad = {
    .num_inputs = 2,
    .infer = InferLocalResponseNormGrad,
    .flops = [](const OpArgs& args,
                std::span<const TensorType>) { return LocalFlops(args, 3, 8); },
    .may_overwrite = 0b11};

}  // namespace stowage::op_defs
