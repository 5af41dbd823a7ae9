#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

// Reads the activated gates, which have overwritten the inputs' contribution.
constinit const Vjp LstmVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(0)) {
    return v.Refuse("only h and c are differentiable, not the gates");
  }
  const bool reverse = v.attrs().Int("reverse") == 1;
  const TensorType& h = v.output_type(1);
  const Value dh = v.has_cotangent(1) ? v.cotangent(1)
                                      : Fill(v.builder(), 0, h.dtype, h.shape);
  const Value dc = v.has_cotangent(2) ? v.cotangent(2) : Value();
  const LstmGrads grads = LstmGrad(v.output(0), v.input(2), v.input(3),
                                   v.output(2), dh, dc, reverse);
  v.Contribute(0, grads.dgates);
  v.Contribute(1, grads.dh0);
  v.Contribute(2, grads.dc0);
  if (v.needs(3)) {
    v.Contribute(
        3, LstmWeightGrad(grads.dgates, v.input(1), v.output(1), reverse));
  }
});

STOWAGE_NON_DIFFERENTIABLE(LstmGrad, "second derivatives are not provided");
STOWAGE_NON_DIFFERENTIABLE(LstmWeightGrad,
                           "second derivatives are not provided");

}  // namespace stowage
