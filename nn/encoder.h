#ifndef STOWAGE_NN_ENCODER_H_
#define STOWAGE_NN_ENCODER_H_

// Builds text encoders that classify or embed texts: BERT (Devlin et al. 2018), RoBERTa (Liu et al.
// 2019), XLM-RoBERTa, DistilBERT and ELECTRA's discriminator, at any size. An encoder adds and
// normalizes the embeddings of tokens, positions and token types. It then applies post-norm blocks,
// each with bidirectional attention and a feed-forward network without gates. A classifier passes
// the first token's vector through a dense layer and an output layer with one row for each label. A
// model that embeds texts instead pools the vectors of all tokens (ModelOptions::embedding). All
// its tokens have type 0.
//
// Params have the names of Hugging Face's ForSequenceClassification models:
// "bert.embeddings.word_embeddings.weight" (vocabulary, width),
// "bert.encoder.layer.<i>.attention.self.query.weight" (width, width), ..., "classifier.weight"
// (labels, width). The weights of linear layers are laid out (out, in).
//
//   Result<Graph> graph = BuildEncoder({.name = "tiny", .names = BertNames(),
//                                       .layers = 2, .heads = 4, .width = 32,
//                                       .hidden = 64, .vocabulary = 40,
//                                       .max_seq = 24, .types = 2,
//                                       .labels = {"good", "bad"}},
//                                      ModelPurpose::kTrain, {.batch = 3, .seq = 16});

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

enum class EncoderActivation { kGeluErf, kGeluTanh, kRelu, kSilu, kTanh };

/// The param names of Hugging Face's models of a family, and the settings that differ between
/// families.
struct EncoderNames {
  std::string_view family;        // config.json's "model_type"
  std::string_view architecture;  // without "ForSequenceClassification"
  std::string_view prefix;        // prefix of params outside the head: "bert."
  // This name follows the prefix.
  std::string_view layers = "encoder.layer.";  // followed by the layer's index
  // These names follow the name of a layer and a dot.
  std::string_view query = "attention.self.query";
  std::string_view key = "attention.self.key";
  std::string_view value = "attention.self.value";
  std::string_view out = "attention.output.dense";
  std::string_view attention_norm = "attention.output.LayerNorm";
  std::string_view up = "intermediate.dense";
  std::string_view down = "output.dense";
  std::string_view mlp_norm = "output.LayerNorm";
  // The full names of the head's two layers, and the activation between them.
  std::string_view head_dense = "classifier.dense";
  std::string_view head_out = "classifier.out_proj";
  EncoderActivation head_activation = EncoderActivation::kTanh;
  // Dropouts that only some families have.
  bool drops_attention_out = true;  // dropout follows the layer `out`
  bool drops_head_in = true;        // dropout precedes head_dense
};

/// Dropout rates of a training step, in [0, 1).
struct EncoderDropout {
  double hidden =
      0;  // rate for the embeddings and additions to the residual stream
  /// The rate for attention probabilities. If it is above 0, the graph stores the probabilities,
  /// (B, heads, T, T). Otherwise the attention op does not store them.
  double attention = 0;
  double classifier = 0;  // rate for the inputs of the head's layers
};

/// Returns all families.
std::span<const EncoderNames> EncoderFamilies();
/// Returns the names of BERT.
const EncoderNames& BertNames();

struct EncoderConfig {
  std::string name;
  EncoderNames names = {};
  int64_t layers = 1;
  int64_t heads = 1;
  int64_t width = 1;
  int64_t hidden = 1;  // hidden units of the feed-forward network
  int64_t vocabulary = 1;
  int64_t max_seq = 1;
  /// The row of the position embedding for the first token. In RoBERTa, it is the id of the padding
  /// token + 1.
  int64_t first_position = 0;
  /// The number of rows of the token type embedding. 0 means that the model has none. If it is
  /// above 1, a classifier has the input "token_types".
  int64_t types = 0;
  /// The width of the embeddings. 0 means `width`. If it differs from `width`, the layer
  /// "embeddings_project" maps the embeddings to `width`.
  int64_t embedding_width = 0;
  /// The names of the labels, in the order of the logits. Must be empty for a model that embeds
  /// texts. Also empty in the description of a model whose file has no classification head
  /// (nn/published_model.h).
  std::vector<std::string> labels = {};
  EncoderDropout dropout = {};
  double init_deviation = 0.02;  // standard deviation of initial weights
  double eps = 1e-12;            // epsilon of the norms
  EncoderActivation activation = EncoderActivation::kGeluErf;
};

/// Returns the graph of an encoder. It embeds texts if `options.embedding` is set, and classifies
/// texts otherwise. ModelOptions::embedding describes the inputs and outputs of a model that embeds
/// texts. Inputs of a classifier:
/// - "tokens", i32 (B, T);
/// - "lengths", i32 (B) with values in [1, T]: later tokens are padding, which no other token
///   attends to;
/// - "token_types", i32 (B, T), if `config.types` is above 1;
/// - "labels", i32 (B), except with ModelPurpose::kGenerate.
///
/// The outputs of a classifier are "loss", the mean cross-entropy in nats, and for evaluation also
/// "predictions", i32 (B), and "logits" (B, labels). With ModelPurpose::kGenerate, "logits" is the
/// only output. A graph for training with dropout also has the inputs "seed" and "step", i64
/// scalars.
///
/// Propagates errors of CheckTextModelOptions. Returns kInvalidArgument if
/// - a size of `config` is below 1, or the heads do not divide the width,
/// - a classifier has fewer than 2 labels, or a model that embeds texts has any,
/// - a dropout rate is outside [0, 1), or
/// - `options` has a logit_chunk, weighted_targets, packed, preference or cache, which are for
///   models that predict tokens, or a `dropout`, since the config has the rates.
Result<Graph> BuildEncoder(const EncoderConfig& config, ModelPurpose purpose,
                           const ModelOptions& options);

/// Returns whether `param` belongs to the classification head.
bool IsHeadParam(const EncoderConfig& config, std::string_view param);

}  // namespace stowage

#endif  // STOWAGE_NN_ENCODER_H_
