#include "autodiff/vjp.h"
#include "autodiff/vjps/shapes.h"
#include "ir/ops.h"

namespace stowage {

// To where the values came from, which is all that is kept.
constinit const Vjp TopKVjp = Differentiable([](VjpContext& v) {
  if (!v.needs(0)) return;
  v.Contribute(0, PutAdd(AccumulatedOrZeros(v, 0), v.output(1), v.cotangent(),
                         v.input_shape(0).rank() - 1));
});

}  // namespace stowage
