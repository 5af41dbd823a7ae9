#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

// What was there before has no part in what is there now.
constinit const Vjp AssignVjp =
    Differentiable([](VjpContext& v) { v.Contribute(1, v.cotangent()); });

// target + weight * (x - target).
constinit const Vjp LerpUpdateVjp = Differentiable([](VjpContext& v) {
  if (v.needs(0) || v.needs(1)) {
    const Value to_x = Mul(v.cotangent(), v.input(2));
    v.Contribute(1, to_x);
    if (v.needs(0)) v.Contribute(0, Sub(v.cotangent(), to_x));
  }
  if (v.needs(2)) {
    v.Contribute(2, Mul(v.cotangent(), Sub(v.input(1), v.input(0))));
  }
});

STOWAGE_NON_DIFFERENTIABLE(SliceUpdate,
                           "it is for what is kept or given out; join parts by "
                           "concat where a gradient has to pass");

}  // namespace stowage
