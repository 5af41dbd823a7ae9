#ifndef STOWAGE_NN_MODEL_OPTIONS_H_
#define STOWAGE_NN_MODEL_OPTIONS_H_

// What may be chosen when the graph of a model is built.
//
//   BuildModel("gpt-nano", ModelPurpose::kTrain, {.batch = 8, .seq = 64});

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "ir/tensor_type.h"
#include "nn/losses.h"

namespace stowage {

// What a classifier of images looks at, and how its images are varied.
//
//   ImageShape fashion{.channels = 1, .height = 28, .width = 28, .classes = 10};

struct ImageShape {
  int64_t channels = 1, height = 1, width = 1;
  int64_t classes = 2;

  /// Numbers of one image.
  int64_t size() const { return channels * height * width; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// Variations of an image when it is drawn for training.
struct Augmentation {
  int64_t pad =
      0;  // zeros on each side, of which a crop of the old size is cut
  bool flip = false;  // left and right, every second time
};

/// What a model's graph is for. The params, their names and their order are the
/// same for all purposes, so that one weight layout serves all graphs.
enum class ModelPurpose {
  kTrain,     // output "loss"; dropout, if any, is on
  kEvaluate,  // output "loss"; classifiers: also "predictions"
  kGenerate,  // output "logits"; no targets; see ModelOptions::cache
};

struct ModelOptions {
  std::optional<int64_t> batch = {};  // the model's default when absent
  std::optional<int64_t> seq = {};    // likewise; only for models of sequences
  /// Of params and activations. Graphs of f16 and bf16 store both in that type;
  /// losses, statistics of rows and the optimizer's moments stay in f32.
  DType dtype = DType::kF32;
  /// Tokens that a model of text by name knows (nn/models.h), whose sizes follow. Absent:
  /// the model's own. Where a config says it, as in nn/gpt.h, that holds.
  std::optional<int64_t> vocabulary = {};
  /// Rows of logits that a loss over a vocabulary makes at a time, at least 1;
  /// 0 for all of them, as a value of the graph. Absent: the model's default.
  /// Only for models of sequences.
  std::optional<int64_t> logit_chunk = {};
  /// A weight for the loss of each token: a graph that trains or evaluates has one more
  /// input, "target_weights" (batch, seq), f64 for f64, else f32, and its loss is the
  /// mean of loss times weight over all tokens. Only for models of sequences; their
  /// logits are then made in chunks, of all rows where no chunk is asked for.
  bool weighted_targets = false;
  /// A sequence is several texts, one behind the other, which do not see each other: a graph
  /// that trains or evaluates has one more input, "segments" (batch, 2, seq), i32, as
  /// AttentionOptions::segments, and where a model adds a vector for each position
  /// "positions" (batch, seq), i32, of each token in its text. Only for models of text with
  /// attention.
  bool packed = false;
  /// An example is two sequences, of which the model learns which is better. A graph that
  /// trains or evaluates has inputs "tokens", "targets" and "target_weights", (batch, 2,
  /// seq); a sequence's log-probability is the sum of those of its targets times their
  /// weights. Further inputs, floats as the weights: "reference_log_probs" (batch, 2)
  /// where HasReference; of ORPO "nll_weights" (batch, seq), of the chosen sequence; of KTO
  /// "sides" (batch). The loss is the mean over examples. Evaluation has outputs
  /// "log_probs" (batch, 2), "losses" and "margins" (batch) too. Only for models of sequences whose
  /// logits are made in chunks, beside no weighted_targets.
  std::optional<PreferenceRules> preference = {};
  /// Only for generating, and only for models of text: the program reads the `seq` next
  /// tokens of texts of at most so many, which it takes up where its run before left
  /// off, from caches of its own (nn/layers.h). Its logits are those behind the last
  /// token, (batch, vocabulary); a model with attention has one more input, the i32
  /// scalar "position", the tokens that were read before. At least seq. Absent: the
  /// program reads whole texts of `seq` tokens, and has logits behind each.
  std::optional<int64_t> cache = {};
  /// What a classifier of images looks at. Absent: the model's default. Only for
  /// models of images.
  std::optional<ImageShape> images = {};
  /// Probability in [0, 1). Above zero, a graph for training has two more
  /// inputs, the i64 scalars "seed" and "step".
  double dropout = 0;
};

// Checks that the models share.

/// Error kInvalidArgument when the batch is absent or below 1, the dtype does
/// not float, or dropout is outside [0, 1).
Status CheckModelOptions(std::string_view model, const ModelOptions& options);

struct NamedSize {
  std::string_view name;
  int64_t size;
};
/// Error kInvalidArgument when a size of the model itself is below 1.
Status CheckModelSizes(std::string_view model,
                       std::initializer_list<NamedSize> sizes);

/// As CheckModelOptions, for a model of text. Further errors, kInvalidArgument:
/// images; a seq that is absent, below 1 or above max_seq; a negative logit_chunk; a
/// cache for anything but generating, below seq or above max_seq.
Status CheckTextModelOptions(std::string_view model, int64_t max_seq,
                             ModelPurpose purpose, const ModelOptions& options);

/// Error kInvalidArgument when there is a logit_chunk or weighted_targets, for models of few
/// logits, whose loss takes neither.
Status CheckNoLogitChunk(std::string_view model, const ModelOptions& options);

/// As CheckModelOptions, for a model that has no sequences and generates nothing. Further
/// errors: kInvalidArgument for a seq, a logit_chunk, a cache or images of impossible
/// sizes, kUnsupported for generating.
Status CheckClassifierOptions(std::string_view model, ModelPurpose purpose,
                              const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_MODEL_OPTIONS_H_
