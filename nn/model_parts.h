#ifndef STOWAGE_NN_MODEL_PARTS_H_
#define STOWAGE_NN_MODEL_PARTS_H_

// What the models of nn/models.def have in common, at their two ends.
//
//   GraphBuilder g("logistic");
//   Images in = DeclareImages(g, options);
//   Dropouts dropouts = DeclareDropouts(g, purpose, options);
//   ...
//   return FinishClassifier(g, logits, in.labels, purpose);

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "nn/layers.h"
#include "nn/model_options.h"

namespace stowage {

struct Images {
  Value x;       // (B, C, H, W), of the dtype of the options
  Value labels;  // i32 (B), or (B, H, W)
};
/// Inputs "x" f32, cast to the dtype of the options, and "y". Precondition: the
/// options have a batch and images.
Images DeclareImages(GraphBuilder& g, const ModelOptions& options);
/// The same where each pixel has a label.
Images DeclareLabelledPixels(GraphBuilder& g, const ModelOptions& options);

/// The dropouts of a model, with inputs "seed" and "step" where it trains with any.
Dropouts DeclareDropouts(GraphBuilder& g, ModelPurpose purpose,
                         const ModelOptions& options);

/// Outputs "loss", the mean cross-entropy in nats, and, when evaluating,
/// "predictions" i32, of the labels' shape; then the graph. logits (B, classes), or
/// (B, H, W, classes) for labels of pixels.
Result<Graph> FinishClassifier(GraphBuilder& g, Value logits, Value labels,
                               ModelPurpose purpose);

struct Text {
  Value tokens;         // i32 (B, T); (2 B, T) of pairs
  Value targets;        // likewise; none when generating
  Value weights;        // of the targets, where the options ask for them
  Value segments = {};  // where sequences are packed
  /// Of pairs: "reference_log_probs", "nll_weights" and "sides", as the objective has them.
  Value reference, nll_weights, sides;
};
/// Inputs "tokens" and, unless generating, "targets" and what goes with them
/// (ModelOptions::weighted_targets, ::packed, ::preference). Precondition: the options
/// have a batch and a seq.
Text DeclareText(GraphBuilder& g, ModelPurpose purpose,
                 const ModelOptions& options);

/// The cache that `options` ask for; none where they ask for none. Precondition: the
/// options have been checked.
std::optional<KvCache> DeclareKvCache(GraphBuilder& g,
                                      const ModelOptions& options);

/// x (B, T, width) -> (B, width), of the last token.
Value LastToken(Value x);

/// Output "loss", the mean of -log p in nats per token, each times its weight where
/// there are weights; of pairs the mean of PreferenceLoss, with the other outputs of
/// ModelOptions::preference; or when generating "logits" (B, T, vocabulary), with a cache
/// (B, vocabulary) of the last token; then the graph. x (B, T, width) with the text's B,
/// head (vocabulary, width).
///
/// The logits are the largest value of a step if the vocabulary is large, so
/// from kLargeVocabulary tokens on a loss makes them by chunks of LogitChunk's rows
/// (ir/ops.h), unless `options.logit_chunk` says otherwise. The batch decides and
/// no budget does: other chunks add up gradients in another order, and the last bits of a
/// loss would depend on it.
///
/// If `logit_cap` is above 0, logits l are logit_cap tanh(l / logit_cap), and always made by
/// chunks in a loss.
Result<Graph> FinishText(GraphBuilder& g, Value x, Value head, const Text& text,
                         ModelPurpose purpose, const ModelOptions& options,
                         double logit_cap = 0);

}  // namespace stowage

#endif  // STOWAGE_NN_MODEL_PARTS_H_
