#include "autodiff/vjp.h"
#include "ir/ops.h"
#include "ir/weight_type.h"

namespace stowage {

constinit const Vjp SoftmaxVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, SoftmaxGrad(v.output(), v.cotangent()));
});

constinit const Vjp LogSoftmaxVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, LogSoftmaxGrad(v.output(), v.cotangent()));
});

STOWAGE_NON_DIFFERENTIABLE(SoftmaxGrad, "second derivatives are not provided");
STOWAGE_NON_DIFFERENTIABLE(LogSoftmaxGrad,
                           "second derivatives are not provided");

constinit const Vjp CrossEntropyVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(1)) {
    return v.Refuse("only its loss is differentiable, not its log-sum-exp");
  }
  // logits and labels again, and one number a row from forward
  v.Contribute(
      0, CrossEntropyGrad(v.input(0), v.input(1), v.output(1), v.cotangent()));
});

STOWAGE_NON_DIFFERENTIABLE(CrossEntropyGrad,
                           "second derivatives are not provided");

namespace {

void ContributeLinear(VjpContext& v, Value dloss, Value weights) {
  LinearCrossEntropyOptions options{.weights = weights,
                                    .softcap = v.attrs().FloatOr("softcap", 0)};
  const int64_t blocks = v.attrs().Int("blocks");
  if (blocks != kNoBlocks) options.blocks = static_cast<WeightType>(blocks);
  const LinearCrossEntropyGrads grads =
      LinearCrossEntropyGrad(v.input(0), v.input(1), v.input(2), dloss,
                             v.attrs().Int("chunk"), options, v.needs(1));
  v.Contribute(0, grads.dx);
  if (v.needs(1)) v.Contribute(1, grads.dw);
}

}  // namespace

// Backward keeps the operands alone: its op recomputes the logits, or, in a training step
// that leaves the forward op out, computes them for the first time (train_step.h).
constinit const Vjp LinearCrossEntropyVjp = Differentiable([](VjpContext& v) {
  if (v.num_inputs() > 3 && v.needs(3)) {
    return v.Refuse("the weights of its rows have no gradient");
  }
  if (v.has_cotangent(0)) {
    ContributeLinear(v, v.cotangent(0),
                     v.num_inputs() > 3 ? v.input(3) : Value());
  }
  if (v.has_cotangent(1)) {
    // The sum of cotangent times loss is a mean with weights of rows times cotangent.
    const TensorType& rows = v.output_type(1);
    ContributeLinear(v, Fill(v.builder(), 1, v.output_type(0).dtype, {}),
                     MulScalar(v.cotangent(1),
                               static_cast<double>(rows.shape.num_elements())));
  }
});

STOWAGE_NON_DIFFERENTIABLE(LinearCrossEntropyGrad,
                           "second derivatives are not provided");

}  // namespace stowage
