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

// Onto the gradient the table has already, if any: a table that is also the
// output projection (tied embeddings) then needs no second buffer of its size.
constinit const Vjp GatherVjp = Differentiable([](VjpContext& v) {
  if (!v.needs(0)) return;
  // base V x C, indices S, dy S x C -> V x C
  v.Contribute(0,
               ScatterAdd(AccumulatedOrZeros(v, 0), v.input(1), v.cotangent()));
});

constinit const Vjp ScatterAddVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, v.cotangent());
  if (!v.needs(2)) return;
  // dy V x C, indices S -> S x C
  v.Contribute(2, Gather(v.cotangent(), v.input(1)));
});

// The old content does not affect the new one.
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
                           "it writes states and outputs; use concat for a "
                           "gradient");

}  // namespace stowage
