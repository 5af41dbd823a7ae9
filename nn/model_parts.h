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
/// Declares the inputs as DeclareImages does, but "y" has a label for each pixel.
Images DeclareLabelledPixels(GraphBuilder& g, const ModelOptions& options);

/// Returns the dropouts of a model. Declares the inputs "seed" and "step" if the graph is for
/// training and `options.dropout` is above 0.
Dropouts DeclareDropouts(GraphBuilder& g, ModelPurpose purpose,
                         const ModelOptions& options);

/// Adds the output "loss", the mean cross-entropy in nats, and for evaluation also "predictions",
/// which is i32 and has the shape of the labels. Returns the graph. `logits` are (B, classes), or
/// (B, H, W, classes) for labels of pixels.
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
/// Declares the input "tokens". Except for generation, also declares "targets" and the inputs that
/// ModelOptions::weighted_targets, ::packed and ::preference add, without "positions". Requires
/// that the options have a batch and a seq.
Text DeclareText(GraphBuilder& g, ModelPurpose purpose,
                 const ModelOptions& options);

/// The texts of ModelOptions::embedding, as a batch of B (1 + documents) texts. The texts of an
/// example are consecutive.
struct EmbeddedTexts {
  Value tokens;   // i32 (B (1 + documents), T)
  Value lengths;  // i32 (B (1 + documents))
};
/// Declares the inputs "tokens" and "lengths". Requires that the options have a batch, a seq and an
/// embedding.
EmbeddedTexts DeclareEmbeddedTexts(GraphBuilder& g,
                                   const ModelOptions& options);

/// Adds the output "loss" or "embeddings" (ModelOptions::embedding), and returns the graph. `x` is
/// (B (1 + documents), T, width), the vectors of the tokens of `texts`.
Result<Graph> FinishEmbedding(GraphBuilder& g, Value x,
                              const EmbeddedTexts& texts, ModelPurpose purpose,
                              const ModelOptions& options);

/// Returns the cache for ModelOptions::cache, or nullopt if the option is absent. Requires that
/// CheckTextModelOptions succeeds.
std::optional<KvCache> DeclareKvCache(GraphBuilder& g,
                                      const ModelOptions& options);

/// Returns the vector of each sequence's last token, (B, width), for x (B, T, width).
Value LastToken(Value x);

/// Adds the outputs of a model that predicts tokens, and returns the graph. `x` is (B, T, width),
/// the vectors of the tokens of `text`. `head` is (vocabulary, width).
///
/// For training and evaluation, the output is "loss", the mean of -log p in nats per token,
/// multiplied by the token's weight if there are weights. For preference pairs, the loss is the
/// mean of PreferenceLoss, with the other outputs of ModelOptions::preference. For generation, the
/// output is "logits" (B, T, vocabulary), or (B, vocabulary) of the last token if there is a cache.
///
/// The logits of a large vocabulary would be the largest value of a step. For a vocabulary of
/// kLargeVocabulary tokens or more, a loss therefore computes them in chunks of LogitChunk rows
/// (ir/ops.h), unless `options.logit_chunk` is set. The number of rows depends on the batch but
/// never on the budget, because chunks of another size would sum gradients in another order and
/// change the last bits.
///
/// If `logit_cap` is above 0, logits l become logit_cap tanh(l / logit_cap). A loss then always
/// computes the logits in chunks, at most in a single chunk of all rows.
Result<Graph> FinishText(GraphBuilder& g, Value x, Value head, const Text& text,
                         ModelPurpose purpose, const ModelOptions& options,
                         double logit_cap = 0);

}  // namespace stowage

#endif  // STOWAGE_NN_MODEL_PARTS_H_
