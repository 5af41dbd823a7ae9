#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

// Each element goes into all sums from its own on: the same, from the other end.
constinit const Vjp CumSumVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, CumSum(v.cotangent(), v.attrs().Int("axis"),
                         v.attrs().Int("exclusive") == 1,
                         v.attrs().Int("reverse") == 0));
});

}  // namespace stowage
