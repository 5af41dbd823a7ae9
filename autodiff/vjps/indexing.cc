#include "autodiff/vjp.h"
#include "autodiff/vjps/shapes.h"
#include "ir/ops.h"

namespace stowage {

// Onto the gradient that x has already, if any, which then needs no second buffer.
constinit const Vjp TakeAlongAxisVjp = Differentiable([](VjpContext& v) {
  if (!v.needs(0)) return;
  v.Contribute(0, PutAdd(AccumulatedOrZeros(v, 0), v.input(1), v.cotangent(),
                         v.attrs().Int("axis")));
});

constinit const Vjp PutAddVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, v.cotangent());
  if (!v.needs(2)) return;
  v.Contribute(2,
               TakeAlongAxis(v.cotangent(), v.input(1), v.attrs().Int("axis")));
});

}  // namespace stowage
