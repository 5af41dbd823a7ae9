#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp CastVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Cast(v.cotangent(), v.input_type(0).dtype));
});

}  // namespace stowage
