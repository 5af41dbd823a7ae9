// The functions of ir/ops.h for layers and losses: grouped and quantized matmuls,
// cross-entropies, norms, attention, gated linear units and LSTMs.

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/weight_type.h"

namespace stowage {
namespace {

int64_t BlocksAttr(const std::optional<WeightType>& blocks) {
  return blocks ? static_cast<int64_t>(*blocks) : kNoBlocks;
}

Attrs LinearLossAttrs(int64_t chunk, const LinearCrossEntropyOptions& options) {
  Attrs attrs{{"chunk", chunk}, {"blocks", BlocksAttr(options.blocks)}};
  if (options.softcap != 0) attrs.Set("softcap", options.softcap);
  return attrs;
}

double AttentionScale(Value q, double scale) {
  if (scale <= 0 && q.ok() && q.rank() == 4) {
    return 1 / std::sqrt(static_cast<double>(q.dim(3)));
  }
  return scale;
}

// `inputs` and then `last`, unless that is Value().
std::vector<Value> WithOptional(std::vector<Value> inputs, Value last) {
  if (last.builder() != nullptr) inputs.push_back(last);
  return inputs;
}

std::vector<Value> AttentionOperands(std::vector<Value> inputs,
                                     const AttentionOptions& options) {
  inputs = WithOptional(std::move(inputs), options.bias);
  inputs = WithOptional(std::move(inputs), options.key_lengths);
  return WithOptional(std::move(inputs), options.segments);
}

Attrs AttentionAttrs(Value q, const AttentionOptions& options) {
  Attrs attrs{{"scale", AttentionScale(q, options.scale)},
              {"causal", int64_t{options.causal}},
              {"window", options.window}};
  if (options.softcap != 0) attrs.Set("softcap", options.softcap);
  return attrs;
}

Attrs Direction(bool reverse) { return {{"reverse", int64_t{reverse}}}; }

}  // namespace

// --- Matmuls and losses ---

Value GroupedMatMul(Value x, Value w, Value ends, bool transpose_w,
                    SourceLoc loc) {
  return Apply(OpKind::kGroupedMatMul, {x, w, ends},
               {{"transpose_w", int64_t{transpose_w}}}, loc);
}

Value GroupedMatMulWeightGrad(Value x, Value dy, Value ends, SourceLoc loc) {
  return Apply(OpKind::kGroupedMatMulWeightGrad, {x, dy, ends}, {}, loc);
}

Value CrossEntropy(Value logits, Value labels, SourceLoc loc) {
  return Apply(OpKind::kCrossEntropy, {logits, labels}, {}, loc);
}

Value CrossEntropyGrad(Value logits, Value labels, Value log_sum_exp,
                       Value dloss, SourceLoc loc) {
  return Apply(OpKind::kCrossEntropyGrad, {logits, labels, log_sum_exp, dloss},
               {}, loc);
}

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

// --- Norms ---

Value LayerNorm(Value x, Value gamma, Value beta, double eps, SourceLoc loc) {
  return Apply(OpKind::kLayerNorm, {x, gamma, beta}, {{"eps", eps}}, loc);
}

LayerNormGrads LayerNormGrad(Value x, Value gamma, Value mean, Value rstd,
                             Value dy, SourceLoc loc) {
  const std::vector<Value> results = ApplyAll(
      OpKind::kLayerNormGrad, std::vector{x, gamma, mean, rstd, dy}, {}, loc);
  return {results[0], results[1], results[2]};
}

BatchNormResults BatchNorm(Value x, Value gamma, Value beta, double eps,
                           SourceLoc loc) {
  const std::vector<Value> results = ApplyAll(
      OpKind::kBatchNorm, std::vector{x, gamma, beta}, {{"eps", eps}}, loc);
  return {results[0], results[1], results[2]};
}

BatchNormGrads BatchNormGrad(Value x, Value gamma, Value mean, Value variance,
                             Value dy, double eps, SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kBatchNormGrad,
               std::vector{x, gamma, mean, variance, dy}, {{"eps", eps}}, loc);
  return {results[0], results[1], results[2]};
}

Value LocalResponseNorm(Value x, const LocalResponse& response, SourceLoc loc) {
  return Apply(OpKind::kLocalResponseNorm, {x},
               {{"size", response.size},
                {"alpha", response.alpha},
                {"beta", response.beta},
                {"bias", response.bias}},
               loc);
}

// --- Attention ---

Value Attention(Value q, Value k, Value v, const AttentionOptions& options,
                SourceLoc loc) {
  return ApplyAll(OpKind::kAttention, AttentionOperands({q, k, v}, options),
                  AttentionAttrs(q, options), loc)[0];
}

Value CausalAttention(Value q, Value k, Value v, double scale, SourceLoc loc) {
  return Attention(q, k, v, {.scale = scale, .causal = true}, loc);
}

AttentionGrads AttentionGrad(Value q, Value k, Value v, Value o,
                             Value log_sum_exp, Value d_o,
                             const AttentionOptions& options, SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kAttentionGrad,
               AttentionOperands({q, k, v, o, log_sum_exp, d_o}, options),
               AttentionAttrs(q, options), loc);
  return {results[0], results[1], results[2]};
}

Value AttentionBiasGrad(Value q, Value k, Value v, Value o, Value log_sum_exp,
                        Value d_o, const AttentionOptions& options,
                        SourceLoc loc) {
  return ApplyAll(OpKind::kAttentionBiasGrad,
                  AttentionOperands({q, k, v, o, log_sum_exp, d_o}, options),
                  AttentionAttrs(q, options), loc)[0];
}

// --- Llama-style layers ---

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

// --- LSTM ---

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
