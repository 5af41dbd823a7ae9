#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp CopyVjp =
    Differentiable([](VjpContext& v) { v.Contribute(0, v.cotangent()); });

// A graph is differentiated first; what lies where is decided when it is planned.
STOWAGE_NON_DIFFERENTIABLE(Fetch, "offloading comes after differentiation");
STOWAGE_NON_DIFFERENTIABLE(Stash, "offloading comes after differentiation");
STOWAGE_NON_DIFFERENTIABLE(StashUpdate, "it overwrites what it reads");

constinit const Vjp ConcatVjp = Differentiable([](VjpContext& v) {
  const int64_t axis = v.attrs().Int("axis");
  int64_t start = 0;
  for (int i = 0; i < v.num_inputs(); ++i) {
    const int64_t end = start + v.input_shape(i)[static_cast<int>(axis)];
    if (v.needs(i)) {
      v.Contribute(i, Slice(v.cotangent(), axis, start, end));
    }
    start = end;
  }
});

}  // namespace stowage
