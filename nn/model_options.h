#ifndef STOWAGE_NN_MODEL_OPTIONS_H_
#define STOWAGE_NN_MODEL_OPTIONS_H_

// Defines the options for building the graph of a model, and checks of the options that several
// models share.
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

/// The purpose of a model's graph. Params have the same names and order for all purposes, so graphs
/// for all purposes can share the weights of one training session.
enum class ModelPurpose {
  kTrain,     // the output is "loss", and dropout applies
  kEvaluate,  // the output is "loss"; classifiers also have "predictions"
  kGenerate,  // the output is "logits"; see ModelOptions::cache
};

struct ModelOptions {
  std::optional<int64_t> batch = {};  // if absent, the model's default
  std::optional<int64_t> seq = {};    // the same, for sequence models only
  /// The type of params and activations. With f16 and bf16, losses, row statistics and the
  /// optimizer's moments are f32.
  DType dtype = DType::kF32;
  /// The vocabulary of a built-in text model (nn/models.h). If absent, it is the model's default.
  /// Functions with a config parameter, as in nn/gpt.h, ignore it.
  std::optional<int64_t> vocabulary = {};
  /// The number of rows of logits that the loss computes at a time. 0 means that the graph stores
  /// the logits of all rows. If absent, FinishText (nn/model_parts.h) chooses the number. This
  /// option is only for text models with attention.
  std::optional<int64_t> logit_chunk = {};
  /// Adds a weight for the loss of each token. A graph for training or evaluation has an additional
  /// input, "target_weights" (batch, seq), which is f64 if `dtype` is f64, and f32 otherwise. The
  /// loss is the mean of the tokens' losses, each multiplied by its weight. The mean divides by the
  /// number of tokens, not by the sum of the weights. Logits are then computed in chunks, at most
  /// in a single chunk of all rows. This option is only for text models with attention.
  bool weighted_targets = false;
  /// Packs several texts, which do not attend to each other, into each sequence. A graph for
  /// training or evaluation has an additional input, "segments" (batch, 2, seq), i32, which
  /// AttentionOptions::segments (ir/ops.h) describes. A model with learned positions also has the
  /// input "positions" (batch, seq), i32, the position of each token in its text. This option is
  /// only for text models with attention.
  bool packed = false;
  /// Trains by preference optimization (nn/losses.h). An example is a chosen and a rejected
  /// sequence. A graph for training or evaluation has the inputs "tokens", "targets" and
  /// "target_weights", (batch, 2, seq). The log-probability of a sequence is the weighted sum of
  /// the log-probabilities of its targets. Some objectives have further inputs, which have the type
  /// of the weights: "reference_log_probs" (batch, 2) if HasReference, "nll_weights" (batch, seq),
  /// the weights of the chosen sequence's losses, for ORPO, and "sides" (batch) for KTO. The loss
  /// is the mean over examples. Evaluation has the additional outputs "log_probs" (batch, 2),
  /// "losses" (batch) and "margins" (batch). This option is only for text models with attention. It
  /// excludes `weighted_targets` and `packed`.
  std::optional<PreferenceRules> preference = {};
  /// Embeds texts (nn/contrastive.h). An example is a query and EmbeddingRules::documents
  /// documents. The graph has the inputs "tokens", i32 (batch, 1 + documents, seq), with the query
  /// first, and "lengths", i32 (batch, 1 + documents) with values in [1, seq]. Tokens after a
  /// text's length are padding. For training, the output is "loss" (InfoNce). Otherwise it is
  /// "embeddings" (batch, 1 + documents, width), which is f64 if `dtype` is f64, and f32 otherwise.
  /// Embeddings are normalized if the similarity is the cosine. This option is only for encoders
  /// (nn/encoder.h) and the decoders of nn/llama.h, which then have no head. It excludes
  /// `logit_chunk`, `weighted_targets`, `packed`, `preference` and `cache`.
  std::optional<EmbeddingRules> embedding = {};
  /// The maximum number of tokens of a text, prompt included, when a text model generates. Must be
  /// at least `seq`. Each run reads the next `seq` tokens and continues from caches (KvCache in
  /// nn/layers.h). It outputs the logits of the last token, (batch, vocabulary). A model with
  /// attention has an additional input, the i32 scalar "position", which is the number of tokens
  /// that earlier runs read. If this option is absent, a run reads whole texts of `seq` tokens and
  /// outputs the logits of each token. This option is only for ModelPurpose::kGenerate.
  std::optional<int64_t> cache = {};
  /// The size of the images of a classifier, and the number of classes. If absent, they are the
  /// model's default. This option is only for image models.
  std::optional<ImageShape> images = {};
  /// The dropout rate, in [0, 1). If it is above 0, a graph for training has the inputs "seed" and
  /// "step", i64 scalars. Other graphs have no dropout.
  double dropout = 0;
};

/// Returns kInvalidArgument if the batch is absent or below 1, the dtype is not floating-point, or
/// dropout is outside [0, 1). Messages name `model`.
Status CheckModelOptions(std::string_view model, const ModelOptions& options);

struct NamedSize {
  std::string_view name;
  int64_t size;
};
/// Returns kInvalidArgument if one of `sizes` is below 1. Messages name `model` and the size.
Status CheckModelSizes(std::string_view model,
                       std::initializer_list<NamedSize> sizes);

/// Checks the options of a text model. Propagates errors of CheckModelOptions, CheckPreference and
/// CheckEmbedding. Returns kInvalidArgument if `images` is set, if `seq` is absent, below 1 or
/// above `max_seq`, if `logit_chunk` is negative, if `preference` or `embedding` is combined with
/// an option that it excludes, or if `cache` is set for another purpose than generation, below
/// `seq` or above `max_seq`.
Status CheckTextModelOptions(std::string_view model, int64_t max_seq,
                             ModelPurpose purpose, const ModelOptions& options);

/// Returns kInvalidArgument if `logit_chunk`, `weighted_targets`, `packed` or `preference` is set.
/// For models that support none of these options.
Status CheckNoLogitChunk(std::string_view model, const ModelOptions& options);

/// Returns kInvalidArgument if `embedding` is set. For models that cannot embed texts.
Status CheckNoEmbedding(std::string_view model, const ModelOptions& options);

/// Checks the options of an image classifier. Propagates errors of CheckModelOptions,
/// CheckNoLogitChunk and CheckNoEmbedding. Returns kInvalidArgument if `seq`, `vocabulary` or
/// `cache` is set, or if `images` has a size below 1, fewer than 2 classes or excessive sizes.
/// Returns kUnsupported for generation.
Status CheckClassifierOptions(std::string_view model, ModelPurpose purpose,
                              const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_MODEL_OPTIONS_H_
