#ifndef STOWAGE_NN_ENCODER_H_
#define STOWAGE_NN_ENCODER_H_

// Encoders of text that classify or embed it: BERT (Devlin et al. 2018), RoBERTa (Liu et al.
// 2019), XLM-RoBERTa, DistilBERT and ELECTRA's discriminator, at any size. The embeddings of
// tokens, positions and token types are added and normalized; post-norm blocks of attention
// in both directions and a plain feed-forward part follow. To classify, the first token's
// vector passes through a dense layer and an output layer with a row for each label. To embed,
// the vectors of all tokens are pooled (ModelOptions::embedding), and all have type 0.
//
// Params carry the names of Hugging Face's ForSequenceClassification models:
// "bert.embeddings.word_embeddings.weight" (vocabulary, width),
// "bert.encoder.layer.<i>.attention.self.query.weight" (width, width), ...,
// "classifier.weight" (labels, width). Weights of linear layers are (out, in).
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

/// The param names of Hugging Face's models of a family, and the settings in which families
/// differ.
struct EncoderNames {
  std::string_view family;        // config.json's "model_type"
  std::string_view architecture;  // without "ForSequenceClassification"
  std::string_view prefix;        // of all params except the head's: "bert."
  // After the prefix.
  std::string_view layers = "encoder.layer.";  // then the number
  // Of a layer, after a dot.
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
  // Dropouts that not all families have.
  bool drops_attention_out = true;  // after the layer `out`
  bool drops_head_in = true;        // before head_dense
};

/// Dropout rates of a training step, in [0, 1).
struct EncoderDropout {
  double hidden =
      0;  // of the embeddings and of additions to the residual stream
  /// Of attention probabilities, which are then values of the graph, (B, heads, T, T);
  /// otherwise attention never stores them.
  double attention = 0;
  double classifier = 0;  // of the inputs of the head's layers
};

/// All families.
std::span<const EncoderNames> EncoderFamilies();
/// The names of BERT.
const EncoderNames& BertNames();

struct EncoderConfig {
  std::string name;
  EncoderNames names = {};
  int64_t layers = 1;
  int64_t heads = 1;
  int64_t width = 1;
  int64_t hidden = 1;  // of the feed-forward part
  int64_t vocabulary = 1;
  int64_t max_seq = 1;
  /// The row of the position embedding for the first token; in RoBERTa the one after the
  /// padding token's number.
  int64_t first_position = 0;
  /// Rows of the token type embedding; 0: none. With more than one, the graph has the
  /// input "token_types".
  int64_t types = 0;
  /// Width of the embeddings, 0: `width`; else the layer "embeddings_project" follows.
  int64_t embedding_width = 0;
  /// Names of the labels, in the order of the logits; empty if the head is unknown
  /// (nn/pretrained.h).
  std::vector<std::string> labels = {};
  EncoderDropout dropout = {};
  double init_deviation = 0.02;  // of normal initial values
  double eps = 1e-12;            // of the norms
  EncoderActivation activation = EncoderActivation::kGeluErf;
};

/// The graph of an encoder with its head, or without it if the options have an embedding.
/// Inputs of a classifier: "tokens" i32 (B, T); "lengths" i32 (B), each in [1, T]: later tokens
/// are padding, which no other token attends to; with several types "token_types" i32 (B, T);
/// and unless generating "labels" i32 (B). Its outputs: "loss", the mean cross-entropy in nats;
/// when evaluating also "predictions" i32 (B) and "logits" (B, labels); when generating only
/// "logits". Those of an embedding: ModelOptions::embedding. A training step with dropouts has
/// the i64 scalars "seed" and "step". Errors: those of CheckTextModelOptions; a size of `config`
/// below 1; without an embedding fewer than 2 labels, with one any; a rate of a dropout outside
/// [0, 1); heads that do not divide the width; options of models that predict tokens,
/// logit_chunk, weighted_targets, packed, preference, cache, and `dropout`, which the config
/// has.
Result<Graph> BuildEncoder(const EncoderConfig& config, ModelPurpose purpose,
                           const ModelOptions& options);

/// Returns whether the param belongs to the head.
bool IsHeadParam(const EncoderConfig& config, std::string_view param);

}  // namespace stowage

#endif  // STOWAGE_NN_ENCODER_H_
