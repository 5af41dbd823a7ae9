// The functions of ir/ops.h that update params and the states of optimizers.

#include <cstdint>
#include <vector>

#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "ir/ops.h"

namespace stowage {

namespace {

// `inputs` and the scale of gradients, if given.
std::vector<Value> WithScale(std::vector<Value> inputs, Value scale) {
  if (scale.builder() != nullptr) inputs.push_back(scale);
  return inputs;
}

Attrs AdamWAttrs(const AdamWOptions& options) {
  return {{"beta1", options.beta1},
          {"beta2", options.beta2},
          {"eps", options.eps},
          {"decay", options.decay}};
}
Attrs RoundedAttrs(Attrs attrs, const RoundingNumbers& numbers) {
  attrs.Set("id", numbers.id);
  attrs.Set("first", numbers.first);
  return attrs;
}
Attrs CodedAttrs(const AdamWOptions& options, MomentCode code) {
  Attrs attrs = AdamWAttrs(options);
  attrs.Set("companded", int64_t{code == MomentCode::kCompanded});
  return attrs;
}

}  // namespace

Value SgdUpdate(Value w, Value g, Value lr, Value scale, double decay,
                SourceLoc loc) {
  return ApplyAll(OpKind::kSgdUpdate, WithScale({w, g, lr}, scale),
                  {{"decay", decay}}, loc)[0];
}

MomentumResults MomentumUpdate(Value w, Value velocity, Value g, Value lr,
                               Value scale, double momentum, double decay,
                               SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kMomentumUpdate, WithScale({w, velocity, g, lr}, scale),
               {{"momentum", momentum}, {"decay", decay}}, loc);
  return {results[0], results[1]};
}

MomentumResults NesterovUpdate(Value w, Value velocity, Value g, Value lr,
                               Value scale, double momentum, double decay,
                               SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kNesterovUpdate, WithScale({w, velocity, g, lr}, scale),
               {{"momentum", momentum}, {"decay", decay}}, loc);
  return {results[0], results[1]};
}

MeanSquareResults RmsPropUpdate(Value w, Value v, Value g, Value lr,
                                Value scale, double alpha, double eps,
                                double decay, SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kRmsPropUpdate, WithScale({w, v, g, lr}, scale),
               {{"alpha", alpha}, {"eps", eps}, {"decay", decay}}, loc);
  return {results[0], results[1]};
}

MeanSquareResults AdagradUpdate(Value w, Value v, Value g, Value lr,
                                Value scale, double eps, double decay,
                                SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kAdagradUpdate, WithScale({w, v, g, lr}, scale),
               {{"eps", eps}, {"decay", decay}}, loc);
  return {results[0], results[1]};
}

AdamWResults AdamUpdate(Value w, Value m, Value v, Value g, Value lr,
                        Value step, Value scale, double beta1, double beta2,
                        double eps, double decay, SourceLoc loc) {
  const std::vector<Value> results = ApplyAll(
      OpKind::kAdamUpdate, WithScale({w, m, v, g, lr, step}, scale),
      {{"beta1", beta1}, {"beta2", beta2}, {"eps", eps}, {"decay", decay}},
      loc);
  return {results[0], results[1], results[2]};
}

AdamWResults AdamWUpdate(Value w, Value m, Value v, Value g, Value lr,
                         Value step, Value scale, double beta1, double beta2,
                         double eps, double decay, SourceLoc loc) {
  const std::vector<Value> results = ApplyAll(
      OpKind::kAdamWUpdate, WithScale({w, m, v, g, lr, step}, scale),
      {{"beta1", beta1}, {"beta2", beta2}, {"eps", eps}, {"decay", decay}},
      loc);
  return {results[0], results[1], results[2]};
}

AdamWSplitResults AdamWSplitUpdate(Value w, Value delta, Value m, Value v,
                                   Value g, Value lr, Value step, Value scale,
                                   double beta1, double beta2, double eps,
                                   double decay, SourceLoc loc) {
  const std::vector<Value> results = ApplyAll(
      OpKind::kAdamWSplitUpdate,
      WithScale({w, delta, m, v, g, lr, step}, scale),
      {{"beta1", beta1}, {"beta2", beta2}, {"eps", eps}, {"decay", decay}},
      loc);
  return {results[0], results[1], results[2], results[3]};
}

AdamWResults AdamWBf16Update(Value w, Value m, Value v, Value g, Value lr,
                             Value step, Value seed, Value scale,
                             const AdamWOptions& options,
                             const RoundingNumbers& numbers, SourceLoc loc) {
  const std::vector<Value> results = ApplyAll(
      OpKind::kAdamWBf16Update, WithScale({w, m, v, g, lr, step, seed}, scale),
      RoundedAttrs(AdamWAttrs(options), numbers), loc);
  return {results[0], results[1], results[2]};
}

AdamWSplitResults AdamWBf16SplitUpdate(Value w, Value delta, Value m, Value v,
                                       Value g, Value lr, Value step,
                                       Value seed, Value scale,
                                       const AdamWOptions& options,
                                       const RoundingNumbers& numbers,
                                       SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kAdamWBf16SplitUpdate,
               WithScale({w, delta, m, v, g, lr, step, seed}, scale),
               RoundedAttrs(AdamWAttrs(options), numbers), loc);
  return {results[0], results[1], results[2], results[3]};
}

AdamW8BitResults AdamW8BitUpdate(Value w, const Moments8Bit& moments, Value g,
                                 Value lr, Value step, Value scale,
                                 const AdamWOptions& options, MomentCode code,
                                 SourceLoc loc) {
  const auto& [m, v, m_scale, v_scale] = moments;
  const std::vector<Value> results =
      ApplyAll(OpKind::kAdamW8BitUpdate,
               WithScale({w, m, v, m_scale, v_scale, g, lr, step}, scale),
               CodedAttrs(options, code), loc);
  return {
      results[0], Value(), {results[1], results[2], results[3], results[4]}};
}

AdamW8BitResults AdamW8BitSplitUpdate(Value w, Value delta,
                                      const Moments8Bit& moments, Value g,
                                      Value lr, Value step, Value scale,
                                      const AdamWOptions& options,
                                      MomentCode code, SourceLoc loc) {
  const auto& [m, v, m_scale, v_scale] = moments;
  const std::vector<Value> results = ApplyAll(
      OpKind::kAdamW8BitSplitUpdate,
      WithScale({w, delta, m, v, m_scale, v_scale, g, lr, step}, scale),
      CodedAttrs(options, code), loc);
  return {
      results[0], results[1], {results[2], results[3], results[4], results[5]}};
}

MomentumResults MomentumBf16Update(Value w, Value velocity, Value g, Value lr,
                                   Value step, Value seed, Value scale,
                                   double momentum, double decay,
                                   const RoundingNumbers& numbers,
                                   SourceLoc loc) {
  const std::vector<Value> results = ApplyAll(
      OpKind::kMomentumBf16Update,
      WithScale({w, velocity, g, lr, step, seed}, scale),
      RoundedAttrs({{"momentum", momentum}, {"decay", decay}}, numbers), loc);
  return {results[0], results[1]};
}

MomentumSplitResults MomentumBf16SplitUpdate(
    Value w, Value delta, Value velocity, Value g, Value lr, Value step,
    Value seed, Value scale, double momentum, double decay,
    const RoundingNumbers& numbers, SourceLoc loc) {
  const std::vector<Value> results = ApplyAll(
      OpKind::kMomentumBf16SplitUpdate,
      WithScale({w, delta, velocity, g, lr, step, seed}, scale),
      RoundedAttrs({{"momentum", momentum}, {"decay", decay}}, numbers), loc);
  return {results[0], results[1], results[2]};
}

Value JoinWeight(Value w, Value delta, SourceLoc loc) {
  return Apply(OpKind::kJoinWeight, {w, delta}, {}, loc);
}

SplitWeight SplitUpdate(Value w, Value delta, Value x, SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kSplitUpdate, std::vector<Value>{w, delta, x}, {}, loc);
  return {results[0], results[1]};
}

}  // namespace stowage
