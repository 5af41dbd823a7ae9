// softmax, log_softmax and their gradients, along the last axis. Kernels read a
// row before they write it.

#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
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

}  // namespace stowage::op_defs
