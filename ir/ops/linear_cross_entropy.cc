// linear_cross_entropy and its gradient: the cross entropy of x w^T, where the
// logits exist only as `chunk` rows at a time, in the kernel's scratch. The
// gradient makes each chunk's logits itself and gives the loss too, so that a
// training step needs nothing of the forward op (autodiff/train_step.h).

#include <span>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

Status CheckOperands(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"chunk", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckRankAtLeast(args, 0, "x", 1));
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, "x", 1, "w"));
  const int64_t width = args.shape(0).back();
  if (args.shape(1).rank() != 2 || args.shape(1)[1] != width) {
    return args.Fail(StrCat(Operand(args, 1, "w"), "; expected (V, ", width,
                            "), since ", Operand(args, 0, "x")));
  }
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 2, "labels", DTypes::kIndex));
  STOWAGE_RETURN_IF_ERROR(
      CheckType(args, 2, "labels",
                TensorType{args.type(2).dtype, LeadingDims(args.shape(0))},
                "since " + Operand(args, 0, "x")));
  const int64_t chunk = args.attrs.Int("chunk");
  if (chunk >= 1) return {};
  return args.Fail(
      StrCat("chunk is ", chunk, "; expected at least 1 row of logits"));
}

TensorType LossType(const OpArgs& args) {
  return {StatisticsType(args.type(0).dtype), {}};
}

TypesResult InferLinearCrossEntropy(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckOperands(args));
  const TensorType loss = LossType(args);
  return Typed(args, {loss, {loss.dtype, LeadingDims(args.shape(0))}});
}

TypesResult InferLinearCrossEntropyGrad(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckOperands(args));
  STOWAGE_RETURN_IF_ERROR(CheckType(args, 3, "dloss", LossType(args),
                                    "since " + Operand(args, 0, "x")));
  return Typed(args, {LossType(args), args.type(0), args.type(1)});
}

// What the products and the rest would cost with logits as a value: those of
// `kProducts` matmuls and `kPasses` of cross_entropy and its gradient.
template <int kProducts, int kPasses>
double Flops(const OpArgs& args, std::span<const TensorType>) {
  const double logits = Elements(args.type(0)) /
                        static_cast<double>(args.shape(0).back()) *
                        static_cast<double>(args.shape(1)[0]);
  const double product = 2 * logits * static_cast<double>(args.shape(1)[1]);
  return kProducts * product + kPasses * (kTranscendentalFlops + 3) * logits;
}

}  // namespace

constinit const OpDef LinearCrossEntropy = {
    .num_inputs = 3, .infer = InferLinearCrossEntropy, .flops = Flops<1, 1>};
constinit const OpDef LinearCrossEntropyGrad = {
    .num_inputs = 4,
    .infer = InferLinearCrossEntropyGrad,
    .flops = Flops<3, 2>};

}  // namespace stowage::op_defs
