// The functions of ir/ops.h that update params and the states of optimizers.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/weight_type.h"

namespace stowage {

namespace {

// With the scale of gradients, where there is one.
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

// The functions of ir/ops.h whose matrix may be in quantized blocks: quantized_matmul,
// quantized_gather and linear_cross_entropy.

namespace {

int64_t BlocksAttr(const std::optional<WeightType>& blocks) {
  return blocks ? static_cast<int64_t>(*blocks) : kNoBlocks;
}

}  // namespace

Value QuantizedMatMul(Value x, Value w, WeightType blocks, bool transpose_w,
                      SourceLoc loc) {
  return Apply(
      OpKind::kQuantizedMatMul, {x, w},
      {{"blocks", BlocksAttr(blocks)}, {"transpose_w", int64_t{transpose_w}}},
      loc);
}

Value QuantizedGather(Value table, Value indices, WeightType blocks,
                      SourceLoc loc) {
  return Apply(OpKind::kQuantizedGather, {table, indices},
               {{"blocks", BlocksAttr(blocks)}}, loc);
}

namespace {

Attrs LinearLossAttrs(int64_t chunk, const LinearCrossEntropyOptions& options) {
  Attrs attrs{{"chunk", chunk}, {"blocks", BlocksAttr(options.blocks)}};
  if (options.softcap != 0) attrs.Set("softcap", options.softcap);
  return attrs;
}

}  // namespace

Value LinearCrossEntropy(Value x, Value w, Value labels, int64_t chunk,
                         const LinearCrossEntropyOptions& options,
                         SourceLoc loc) {
  std::vector<Value> operands = {x, w, labels};
  if (options.weights.builder() != nullptr) operands.push_back(options.weights);
  return ApplyAll(OpKind::kLinearCrossEntropy, operands,
                  LinearLossAttrs(chunk, options), loc)[0];
}

Value LinearCrossEntropyRows(Value x, Value w, Value labels, int64_t chunk,
                             const LinearCrossEntropyOptions& options,
                             SourceLoc loc) {
  STOWAGE_CHECK(options.weights.builder() == nullptr);
  return ApplyAll(OpKind::kLinearCrossEntropy, std::vector{x, w, labels},
                  LinearLossAttrs(chunk, options), loc)[1];
}

LinearCrossEntropyGrads LinearCrossEntropyGrad(
    Value x, Value w, Value labels, Value dloss, int64_t chunk,
    const LinearCrossEntropyOptions& options, bool wants_dw, SourceLoc loc) {
  std::vector<Value> operands = {x, w, labels, dloss};
  if (options.weights.builder() != nullptr) operands.push_back(options.weights);
  Attrs attrs = LinearLossAttrs(chunk, options);
  attrs.Set("weight_grad", int64_t{wants_dw});
  std::vector<Value> results =
      ApplyAll(OpKind::kLinearCrossEntropyGrad, operands, attrs, loc);
  results.resize(3);
  return {results[0], results[1], results[2]};
}

// The functions of ir/ops.h that transformers of Llama's kind are made of: those of
// the families `rms_norm`, `rope` and `glu`.

Value RmsNorm(Value x, Value gamma, double eps, SourceLoc loc) {
  return Apply(OpKind::kRmsNorm, {x, gamma}, {{"eps", eps}}, loc);
}

RmsNormGrads RmsNormGrad(Value x, Value gamma, Value rstd, Value dy,
                         SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kRmsNormGrad, std::vector{x, gamma, rstd, dy}, {}, loc);
  return {results[0], results[1]};
}

Value Rope(Value x, Value positions, const RopeOptions& options,
           SourceLoc loc) {
  // For another rank there is no D; the op reports the error.
  const int64_t all = x.ok() && x.rank() == 4 ? x.dim(3) : 0;
  const Attrs attrs = {{"base", options.base},
                       {"dims", options.dims == 0 ? all : options.dims},
                       {"interleaved", int64_t{options.interleaved}},
                       {"inverse", int64_t{options.inverse}}};
  if (positions.builder() == nullptr) {
    return Apply(OpKind::kRope, {x}, attrs, loc);
  }
  return Apply(OpKind::kRope, {x, positions}, attrs, loc);
}

Value Glu(Value gate, Value up, GluActivation activation, SourceLoc loc) {
  return Apply(OpKind::kGlu, {gate, up},
               {{"activation", static_cast<int64_t>(activation)}}, loc);
}

Value SwiGlu(Value gate, Value up, SourceLoc loc) {
  return Glu(gate, up, GluActivation::kSilu, loc);
}

Value GeGlu(Value gate, Value up, SourceLoc loc) {
  return Glu(gate, up, GluActivation::kGeluTanh, loc);
}

GluGrads GluGrad(Value gate, Value up, Value dy, GluActivation activation,
                 SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kGluGrad, std::vector{gate, up, dy},
               {{"activation", static_cast<int64_t>(activation)}}, loc);
  return {results[0], results[1]};
}

// The functions of ir/ops.h that recurrent layers are made of: those of the family
// `lstm`.

namespace {

Attrs Direction(bool reverse) { return {{"reverse", int64_t{reverse}}}; }

}  // namespace

LstmSequenceResults LstmSequence(Value gates, Value h0, Value c0, Value w,
                                 bool reverse, SourceLoc loc) {
  const std::vector<Value> results = ApplyAll(
      OpKind::kLstm, std::vector{gates, h0, c0, w}, Direction(reverse), loc);
  return {results[1], results[2]};
}

LstmGrads LstmGrad(Value gates, Value c0, Value w, Value c, Value dh, Value dc,
                   bool reverse, SourceLoc loc) {
  std::vector<Value> operands = {gates, c0, w, c, dh};
  if (dc.builder() != nullptr) operands.push_back(dc);
  const std::vector<Value> results =
      ApplyAll(OpKind::kLstmGrad, operands, Direction(reverse), loc);
  return {results[0], results[1], results[2]};
}

Value LstmWeightGrad(Value dgates, Value h0, Value h, bool reverse,
                     SourceLoc loc) {
  return Apply(OpKind::kLstmWeightGrad, {dgates, h0, h}, Direction(reverse),
               loc);
}

}  // namespace stowage
