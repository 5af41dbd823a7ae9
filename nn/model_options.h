#ifndef STOWAGE_NN_MODEL_OPTIONS_H_
#define STOWAGE_NN_MODEL_OPTIONS_H_

// Options for building the graph of a model, and the checks that models share.
//
//   BuildModel("gpt-nano", ModelPurpose::kTrain, {.batch = 8, .seq = 64});

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "formats/image.h"
#include "ir/tensor_type.h"
#include "nn/contrastive.h"
#include "nn/losses.h"

namespace stowage {

/// The purpose of a model's graph. Params, their names and their order are the same for all
/// purposes, so that one weight layout serves all graphs.
enum class ModelPurpose {
  kTrain,     // output "loss"; dropout, if any, is on
  kEvaluate,  // output "loss"; classifiers: also "predictions"
  kGenerate,  // output "logits"; no targets; see ModelOptions::cache
};

struct ModelOptions {
  std::optional<int64_t> batch = {};  // absent: the model's default
  std::optional<int64_t> seq = {};    // likewise; only for sequence models
  /// The type of params and activations. With f16 and bf16, losses, row statistics and the
  /// optimizer's moments are f32.
  DType dtype = DType::kF32;
  /// The vocabulary of a built-in text model (nn/models.h); absent: the model's default.
  /// Ignored by functions that take a config, as in nn/gpt.h.
  std::optional<int64_t> vocabulary = {};
  /// Rows of logits that the loss computes at a time, at least 1; 0: all, as a value of the
  /// graph; absent: the model's default. Only for sequence models.
  std::optional<int64_t> logit_chunk = {};
  /// A weight for the loss of each token: a graph that trains or evaluates has one more
  /// input, "target_weights" (batch, seq), f64 for f64, else f32, and its loss is the
  /// mean of loss times weight over all tokens. Only for sequence models; their logits are
  /// then computed in chunks, by default one of all rows.
  bool weighted_targets = false;
  /// A sequence is several concatenated texts that do not attend to each other: a graph that
  /// trains or evaluates has one more input, "segments" (batch, 2, seq), i32, as
  /// AttentionOptions::segments, and, with learned positions, "positions" (batch, seq), i32,
  /// the position of each token in its text. Only for text models with attention.
  bool packed = false;
  /// Preference optimization: an example is a chosen and a rejected sequence. A graph that
  /// trains or evaluates has inputs "tokens", "targets" and "target_weights", (batch, 2,
  /// seq); a sequence's log-probability is the sum of those of its targets times their
  /// weights. Further inputs, floats as the weights: "reference_log_probs" (batch, 2) if
  /// HasReference; for ORPO "nll_weights" (batch, seq), of the chosen sequence; for KTO
  /// "sides" (batch). The loss is the mean over examples. Evaluation also has the outputs
  /// "log_probs" (batch, 2), "losses" and "margins" (batch). Only for sequence models with
  /// chunked logits, and without weighted_targets.
  std::optional<PreferenceRules> preference = {};
  /// Embeddings of texts: an example is a query and EmbeddingRules::documents. The graph has the
  /// inputs "tokens" i32 (batch, 1 + documents, seq), the query first, and "lengths" i32
  /// (batch, 1 + documents), each in [1, seq]: later tokens are padding. When training, the
  /// output is "loss" (InfoNce); else "embeddings" (batch, 1 + documents, width), f64 for f64,
  /// else f32, normalized if the similarity is the cosine. Only for encoders (nn/encoder.h) and
  /// nn/llama.h, which then have no head; without options of predicted tokens.
  std::optional<EmbeddingRules> embedding = {};
  /// For generation by text models: the maximum length of texts, at least seq. Each run reads
  /// the next `seq` tokens and continues from caches (KvCache, nn/layers.h); its logits are
  /// those of the last token, (batch, vocabulary). A model with attention has one more
  /// input, the i32 scalar "position", the number of tokens read before. Absent: a run reads
  /// whole texts of `seq` tokens, and has logits for each.
  std::optional<int64_t> cache = {};
  /// The images of a classifier; absent: the model's default. Only for image models.
  std::optional<ImageShape> images = {};
  /// Dropout probability in [0, 1). Above 0, a graph for training has the inputs "seed" and
  /// "step", i64 scalars.
  double dropout = 0;
};

/// Error kInvalidArgument if the batch is absent or below 1, the dtype is not a float, or
/// dropout is outside [0, 1).
Status CheckModelOptions(std::string_view model, const ModelOptions& options);

struct NamedSize {
  std::string_view name;
  int64_t size;
};
/// Error kInvalidArgument if a size of the model is below 1.
Status CheckModelSizes(std::string_view model,
                       std::initializer_list<NamedSize> sizes);

/// As CheckModelOptions, for a text model. Further errors, kInvalidArgument:
/// images; a seq that is absent, below 1 or above max_seq; a negative logit_chunk; a
/// cache for another purpose than generating, below seq or above max_seq.
Status CheckTextModelOptions(std::string_view model, int64_t max_seq,
                             ModelPurpose purpose, const ModelOptions& options);

/// Error kInvalidArgument if there is a logit_chunk or weighted_targets, for models whose loss
/// supports neither.
Status CheckNoLogitChunk(std::string_view model, const ModelOptions& options);

/// Error kInvalidArgument if there is an embedding, for models that have none of texts.
Status CheckNoEmbedding(std::string_view model, const ModelOptions& options);

/// As CheckModelOptions, for a classifier. Further errors: kInvalidArgument for a seq, a logit_chunk, a cache or images of impossible
/// sizes, kUnsupported for generating.
Status CheckClassifierOptions(std::string_view model, ModelPurpose purpose,
                              const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_MODEL_OPTIONS_H_
