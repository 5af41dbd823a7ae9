#include "autodiff/vjp.h"
#include "ir/ops.h"
#include "ir/padding.h"

namespace stowage {

// A constant gets none: what is left is a view.
constinit const Vjp PadVjp = Differentiable([](VjpContext& v) {
  const Axes& before = v.attrs().Ints("before");
  const Axes& after = v.attrs().Ints("after");
  Value dy = v.cotangent();
  if (static_cast<PadMode>(v.attrs().Int("mode")) != PadMode::kConstant) {
    return v.Contribute(0, Apply(OpKind::kPadGrad, {dy},
                                 {{"before", before},
                                  {"after", after},
                                  {"mode", v.attrs().Int("mode")}}));
  }
  for (int i = 0; i < dy.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (before[at] == 0 && after[at] == 0) continue;
    dy = Slice(dy, i, before[at], dy.dim(i) - after[at]);
  }
  v.Contribute(0, dy);
});

STOWAGE_NON_DIFFERENTIABLE(PadGrad, "second derivatives are not provided");

}  // namespace stowage
