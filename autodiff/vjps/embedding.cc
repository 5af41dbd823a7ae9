#include "autodiff/vjp.h"
#include "autodiff/vjps/shapes.h"
#include "ir/ops.h"

namespace stowage {

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

}  // namespace stowage
