#include "ir/attention.h"

#include <cstddef>

#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp AttentionVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(1)) {
    return v.Refuse("only its result is differentiable, not its log-sum-exp");
  }
  AttentionOptions options = {.scale = v.attrs().Float("scale"),
                              .causal = v.attrs().Int("causal") == 1,
                              .window = v.attrs().Int("window"),
                              .softcap = v.attrs().FloatOr("softcap", 0)};
  const AttentionOptionals at =
      OptionalsBehind(kAttentionOperands, static_cast<size_t>(v.num_inputs()),
                      [&](size_t i) -> const TensorType& {
                        return v.input_type(static_cast<int>(i));
                      });
  const int bias = static_cast<int>(at.bias);
  if (at.bias != 0) options.bias = v.input(bias);
  if (at.key_lengths != 0) {
    options.key_lengths = v.input(static_cast<int>(at.key_lengths));
  }
  if (at.segments != 0) {
    options.segments = v.input(static_cast<int>(at.segments));
  }
  if (v.needs(0) || v.needs(1) || v.needs(2)) {
    const AttentionGrads grads =
        AttentionGrad(v.input(0), v.input(1), v.input(2), v.output(0),
                      v.output(1), v.cotangent(), options);
    v.Contribute(0, grads.dq);
    v.Contribute(1, grads.dk);
    v.Contribute(2, grads.dv);
  }
  if (at.bias != 0 && v.needs(bias)) {
    v.Contribute(
        bias, AttentionBiasGrad(v.input(0), v.input(1), v.input(2), v.output(0),
                                v.output(1), v.cotangent(), options));
  }
});

STOWAGE_NON_DIFFERENTIABLE(AttentionGrad,
                           "second derivatives are not provided");
STOWAGE_NON_DIFFERENTIABLE(AttentionQkvGrad,
                           "second derivatives are not provided");
STOWAGE_NON_DIFFERENTIABLE(AttentionBiasGrad,
                           "second derivatives are not provided");

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
