#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

// The same mask, made again from the same seed, step and id.
constinit const Vjp DropoutVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Dropout(v.cotangent(), v.input(1), v.input(2),
                          v.attrs().Float("p"), v.attrs().Int("id")));
});

}  // namespace stowage
