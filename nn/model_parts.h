#ifndef STOWAGE_NN_MODEL_PARTS_H_
#define STOWAGE_NN_MODEL_PARTS_H_

// Declares the inputs of models, and adds their losses and outputs.
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
  Value x;       // (B, C, H, W), of ModelOptions::dtype
  Value labels;  // i32 (B), or (B, H, W) for pixels
};
/// Declares the inputs "x", f32, and "y", and casts x to `options.dtype`. Requires that the options
/// have a batch and images.
Images DeclareImages(GraphBuilder& g, const ModelOptions& options);
/// Does the same for a label per pixel.
Images DeclareLabelledPixels(GraphBuilder& g, const ModelOptions& options);

/// Returns the dropouts of a model. Declares the inputs "seed" and "step" if it trains with any.
Dropouts DeclareDropouts(GraphBuilder& g, ModelPurpose purpose,
                         const ModelOptions& options);

/// Outputs "loss", the mean cross-entropy in nats, and for evaluation also "predictions", i32 of
/// the shape of the labels, and returns the graph. `logits` are (B, classes), or (B, H, W, classes)
/// for labels of pixels.
Result<Graph> FinishClassifier(GraphBuilder& g, Value logits, Value labels,
                               ModelPurpose purpose);

struct Text {
  Value tokens;         // i32 (B, T), or (2 B, T) for preference pairs
  Value targets;        // i32, of the same shape; absent for generation
  Value weights;        // weights of the targets, if there are any
  Value segments = {};  // if packed
  /// The inputs "reference_log_probs", "nll_weights" and "sides" of preference pairs, if the
  /// objective uses them.
  Value reference, nll_weights, sides;
};
/// Declares the inputs "tokens" and, except for generation, "targets" and the related inputs of
/// ModelOptions::weighted_targets, ::packed and ::preference. Requires that the options have a
/// batch and a seq.
Text DeclareText(GraphBuilder& g, ModelPurpose purpose,
                 const ModelOptions& options);

/// The texts of ModelOptions::embedding, with the texts of an example in consecutive rows.
struct EmbeddedTexts {
  Value tokens;   // i32 (B (1 + documents), T)
  Value lengths;  // i32 (B (1 + documents))
};
/// Declares the inputs "tokens" and "lengths". Requires that the options have a batch, a seq and an
/// embedding.
EmbeddedTexts DeclareEmbeddedTexts(GraphBuilder& g,
                                   const ModelOptions& options);

/// Outputs "loss" or "embeddings" (ModelOptions::embedding), and returns the graph. `x` is
/// (B (1 + documents), T, width).
Result<Graph> FinishEmbedding(GraphBuilder& g, Value x,
                              const EmbeddedTexts& texts, ModelPurpose purpose,
                              const ModelOptions& options);

/// Returns the cache for ModelOptions::cache, or nullopt if it is absent. Requires that the options
/// are valid.
std::optional<KvCache> DeclareKvCache(GraphBuilder& g,
                                      const ModelOptions& options);

/// Returns the vectors of the last token, (B, width), of x (B, T, width).
Value LastToken(Value x);

/// Adds the outputs of a model that predicts tokens, and returns the graph. `x` is (B, T, width),
/// with the B of `text`, and `head` is (vocabulary, width).
///
/// For training and evaluation, the output is "loss", the mean of -log p in nats per token,
/// multiplied by the token's weight if there are weights. For preference pairs, the loss is the
/// mean of PreferenceLoss, with the other outputs of ModelOptions::preference. For generation, the
/// output is "logits" (B, T, vocabulary), or (B, vocabulary) of the last token if there is a cache.
///
/// The logits of a large vocabulary would be the largest value of a step. From kLargeVocabulary
/// tokens on, a loss therefore computes them in chunks of LogitChunk rows (ir/ops.h), unless
/// `options.logit_chunk` is set. The chunk depends on the batch but never on the budget, because
/// another chunk would sum gradients in another order and change the last bits.
///
/// If `logit_cap` is above 0, logits l become logit_cap tanh(l / logit_cap). A loss then always
/// computes them in chunks.
Result<Graph> FinishText(GraphBuilder& g, Value x, Value head, const Text& text,
                         ModelPurpose purpose, const ModelOptions& options,
                         double logit_cap = 0);

}  // namespace stowage

#endif  // STOWAGE_NN_MODEL_PARTS_H_
