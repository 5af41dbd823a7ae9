// softmax and the losses based on it.

#include <span>
#include <string>
#include <utility>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"
#include "ir/weight_type.h"

namespace stowage::op_defs {

// softmax, log_softmax and their gradients, along the last axis. Kernels read a
// row before they write it.

namespace {

TypesResult InferSoftmax(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 1));
  return Typed(args, {args.type(0)});
}

TypesResult InferSoftmaxGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "y", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "y", 1));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "y", 1, "dy"));
  return Typed(args, {args.type(0)});
}

}  // namespace

constinit const OpDef Softmax = {
    .infer = InferSoftmax,
    .flops = FlopsPerResultElement<kTranscendentalFlops + 4>,
    .may_overwrite = 0b1};
constinit const OpDef SoftmaxGrad = {.num_inputs = 2,
                                     .infer = InferSoftmaxGrad,
                                     .flops = FlopsPerResultElement<4>,
                                     .may_overwrite = 0b11};
constinit const OpDef LogSoftmax = {
    .infer = InferSoftmax,
    .flops = FlopsPerResultElement<kTranscendentalFlops + 4>,
    .may_overwrite = 0b1};
constinit const OpDef LogSoftmaxGrad = {
    .num_inputs = 2,
    .infer = InferSoftmaxGrad,
    .flops = FlopsPerResultElement<kTranscendentalFlops + 3>,
    .may_overwrite = 0b11};

// cross_entropy and its gradient. The loss and each row's log-sum-exp are kept
// in f32, or in f64 for f64 logits; the gradient reads the log-sum-exp instead
// of probabilities.

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

// linear_cross_entropy and its gradient: the cross-entropy of x w^T, whose logits exist for
// `chunk` rows at a time, in the kernel's workspace. Results: the mean, and each row's loss
// before its weight. The gradient computes each chunk's logits itself and returns the loss
// too, so that a training step needs nothing of the forward op (autodiff/train_step.h). w is
// of floats, or frozen and in quantized blocks.

namespace {

// The shape of w, decoded: (V, C).
Result<Shape> WeightShape(const OpArgs& args) {
  if (args.attrs.Int("blocks") != kNoBlocks) return CheckBlocks(args, 1, "w");
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "x", 1, "w"));
  return args.shape(1);
}

// Checks the operands of both: x, w, labels and, at index `weights`, the optional weights.
Status CheckLinearLoss(const OpArgs& args, int weights) {
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 1));
  STOWAGE_ASSIGN_OR_RETURN(const Shape w, WeightShape(args));
  const int64_t width = args.shape(0).back();
  if (w.rank() != 2 || w[1] != width) {
    return args.Fail(StrCat(Operand(args, 1, "w"), "; expected (V, ", width,
                            "), since ", Operand(args, 0, "x")));
  }
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 2, "labels", DTypes::kIndex));
  const Shape rows = LeadingDims(args.shape(0));
  const std::string reason = "since " + Operand(args, 0, "x");
  STOWAGE_RETURN_IF_ERROR(CheckType(
      args, 2, "labels", TensorType{args.type(2).dtype, rows}, reason));
  if (args.count() > weights) {
    STOWAGE_RETURN_IF_ERROR(CheckType(args, weights, "weights",
                                      TensorType{LossType(args).dtype, rows},
                                      reason));
  }
  const int64_t chunk = args.attrs.Int("chunk");
  if (chunk >= 1) return {};
  return args.Fail(
      StrCat("chunk is ", chunk, "; expected at least 1 row of logits"));
}

Status CheckClassCount(const OpArgs& args, int least) {
  if (args.count() == least || args.count() == least + 1) return {};
  return args.Fail(StrCat("got ", args.count(), " operands; expected ", least,
                          " or ", least + 1));
}

TypesResult InferLinearCrossEntropy(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrsAndSoftcap(
      args, {{"chunk", AttrKind::kInt}, {"blocks", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckClassCount(args, 3));
  STOWAGE_RETURN_IF_ERROR(CheckLinearLoss(args, 3));
  const TensorType loss = LossType(args);
  return Typed(args, {loss, {loss.dtype, LeadingDims(args.shape(0))}});
}

TypesResult InferLinearCrossEntropyGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(
      CheckAttrsAndSoftcap(args, {{"chunk", AttrKind::kInt},
                                  {"blocks", AttrKind::kInt},
                                  {"weight_grad", AttrKind::kFlag}}));
  STOWAGE_RETURN_IF_ERROR(CheckClassCount(args, 4));
  STOWAGE_RETURN_IF_ERROR(CheckLinearLoss(args, 4));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 3, "dloss", LossType(args),
                                    "since " + Operand(args, 0, "x")));
  std::vector<TensorType> results = {LossType(args), args.type(0)};
  if (args.attrs.Int("weight_grad") == 1) {
    if (args.attrs.Int("blocks") != kNoBlocks) {
      return args.Fail(StrCat(Operand(args, 1, "w"),
                              ", in blocks, which have no gradient; "
                              "expected weight_grad 0"));
    }
    results.push_back(args.type(1));
  }
  return Typed(args, std::move(results));
}

// The operations as if logits were a value: `kProducts` matmuls, and `kPasses` of
// cross_entropy and its gradient.
template <int kProducts, int kPasses>
double LinearLossFlops(const OpArgs& args,
                       std::span<const TensorType> results) {
  const auto width = static_cast<double>(args.shape(0).back());
  const double logits =
      Elements(args.type(0)) / width * static_cast<double>(args.shape(1)[0]);
  // The gradient of w is one of the matmuls.
  const int products = kProducts - (kProducts == 3 && results.size() < 3);
  return products * 2 * logits * width +
         kPasses * (kTranscendentalFlops + 3) * logits;
}

}  // namespace

constinit const OpDef LinearCrossEntropy = {.num_inputs = kAnyNumber,
                                            .infer = InferLinearCrossEntropy,
                                            .flops = LinearLossFlops<1, 1>};
constinit const OpDef LinearCrossEntropyGrad = {
    .num_inputs = kAnyNumber,
    .infer = InferLinearCrossEntropyGrad,
    .flops = LinearLossFlops<3, 2>};

}  // namespace stowage::op_defs
