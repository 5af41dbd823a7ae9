#ifndef STOWAGE_NN_MODEL_PARTS_H_
#define STOWAGE_NN_MODEL_PARTS_H_

// The inputs, losses and outputs that models share.
//
//   GraphBuilder g("logistic");
//   Images in = DeclareImages(g, options);
//   Dropouts dropouts = DeclareDropouts(g, purpose, options);
//   ...
//   return FinishClassifier(g, logits, in.labels, purpose);

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
/// As above, with a label per pixel.
Images DeclareLabelledPixels(GraphBuilder& g, const ModelOptions& options);

/// The dropouts of a model, with inputs "seed" and "step" if it trains with any.
Dropouts DeclareDropouts(GraphBuilder& g, ModelPurpose purpose,
                         const ModelOptions& options);

/// Outputs "loss", the mean cross-entropy in nats, and, when evaluating,
/// "predictions" i32, of the labels' shape; then the graph. logits (B, classes), or
/// (B, H, W, classes) for labels of pixels.
Result<Graph> FinishClassifier(GraphBuilder& g, Value logits, Value labels,
                               ModelPurpose purpose);

struct Text {
  Value tokens;         // i32 (B, T); (2 B, T) for pairs
  Value targets;        // likewise; none when generating
  Value weights;        // of the targets, if weighted_targets
  Value segments = {};  // if packed
  /// For pairs: "reference_log_probs", "nll_weights" and "sides", if the objective has them.
  Value reference, nll_weights, sides;
};
/// Inputs "tokens" and, unless generating, "targets" and related inputs
/// (ModelOptions::weighted_targets, ::packed, ::preference). Precondition: the options
/// have a batch and a seq.
Text DeclareText(GraphBuilder& g, ModelPurpose purpose,
                 const ModelOptions& options);

/// The texts of ModelOptions::embedding, one after the other.
struct EmbeddedTexts {
  Value tokens;   // i32 (B (1 + documents), T)
  Value lengths;  // i32 (B (1 + documents))
};
/// Inputs "tokens" and "lengths". Precondition: the options have a batch, a seq and an
/// embedding.
EmbeddedTexts DeclareEmbeddedTexts(GraphBuilder& g,
                                   const ModelOptions& options);

/// Output "loss" or "embeddings" (ModelOptions::embedding), then the graph. x (B (1 +
/// documents), T, width).
Result<Graph> FinishEmbedding(GraphBuilder& g, Value x,
                              const EmbeddedTexts& texts, ModelPurpose purpose,
                              const ModelOptions& options);

/// The cache for ModelOptions::cache; absent without it. Precondition: the options are
/// valid.
std::optional<KvCache> DeclareKvCache(GraphBuilder& g,
                                      const ModelOptions& options);

/// x (B, T, width) -> (B, width), of the last token.
Value LastToken(Value x);

/// Output "loss", the mean of -log p in nats per token, times its weight if there are
/// weights; for pairs the mean of PreferenceLoss, with the other outputs of
/// ModelOptions::preference; or when generating "logits" (B, T, vocabulary), with a cache
/// (B, vocabulary) of the last token; then the graph. x (B, T, width) with the text's B,
/// head (vocabulary, width).
///
/// With a large vocabulary the logits would be the largest value of a step, so from
/// kLargeVocabulary tokens on a loss computes them in chunks of LogitChunk rows
/// (ir/ops.h), unless `options.logit_chunk` is set. The chunk depends on the batch,
/// never on the budget, since another chunk sums gradients in another order and changes the
/// last bits.
///
/// If `logit_cap` is above 0, logits l become logit_cap tanh(l / logit_cap), and are always
/// computed in chunks in a loss.
Result<Graph> FinishText(GraphBuilder& g, Value x, Value head, const Text& text,
                         ModelPurpose purpose, const ModelOptions& options,
                         double logit_cap = 0);

}  // namespace stowage

#endif  // STOWAGE_NN_MODEL_PARTS_H_
