#include "autodiff/vjp.h"
#include "ir/ops.h"
#include "ir/weight_type.h"

namespace stowage {

// Of x alone, by the same bytes read the other way round: nothing of forward is kept.
constinit const Vjp QuantizedMatMulVjp = Differentiable([](VjpContext& v) {
  const auto blocks = static_cast<WeightType>(v.attrs().Int("blocks"));
  const bool transposed = v.attrs().Int("transpose_w") != 0;
  v.Contribute(0,
               QuantizedMatMul(v.cotangent(), v.input(1), blocks, !transposed));
});

STOWAGE_ZERO_DERIVATIVE(QuantizedGather);

}  // namespace stowage
