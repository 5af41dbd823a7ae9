#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

// A rotation's transpose is the rotation back.
constinit const Vjp RopeVjp = Differentiable([](VjpContext& v) {
  const Attrs& attrs = v.attrs();
  const RopeOptions back = {.base = attrs.Float("base"),
                            .dims = attrs.Int("dims"),
                            .interleaved = attrs.Int("interleaved") != 0,
                            .inverse = attrs.Int("inverse") == 0};
  const Value positions = v.num_inputs() == 2 ? v.input(1) : Value();
  v.Contribute(0, Rope(v.cotangent(), positions, back));
});

}  // namespace stowage
