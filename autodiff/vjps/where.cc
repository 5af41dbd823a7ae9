#include "autodiff/vjp.h"
#include "autodiff/vjps/shapes.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp WhereVjp = Differentiable([](VjpContext& v) {
  const Value zero = Zeros(v.builder(), v.output_type());
  if (v.needs(1)) {
    v.Contribute(1, Where(v.input(0), v.cotangent(), zero));
  }
  if (v.needs(2)) {
    v.Contribute(2, Where(v.input(0), zero, v.cotangent()));
  }
});

}  // namespace stowage
