#ifndef STOWAGE_NN_LLAMA_H_
#define STOWAGE_NN_LLAMA_H_

// Llama (Touvron et al. 2023) at any size: token embedding, pre-norm blocks of causal
// attention with rotary positions, whose keys and values serve several heads each, and
// of a gated feed-forward part, a last norm, an output layer of its own or the
// embedding transposed. Norms have no mean, and nothing has a bias, unless the config
// says so: the other families of decoders are the same but for a few of its fields.
// nn/llama_families.h lists them and nn/pretrained.h takes their sizes from files.
//
// Params carry the names of Hugging Face's models: "model.embed_tokens.weight"
// (vocabulary, width), "model.layers.<i>.self_attn.q_proj.weight" (width, width), ...,
// "model.norm.weight", "lm_head.weight" (vocabulary, width). As everywhere here, a
// linear layer's weight is (in, out), where theirs is (out, in), unless `out_in` asks
// for theirs; the head, which is looked at by rows as the embedding is, lies as theirs.
//
//   Result<Graph> graph = BuildLlama({.name = "tiny", .layers = 2, .heads = 4,
//                                     .kv_heads = 2, .width = 32, .hidden = 88,
//                                     .vocabulary = 40, .max_seq = 24},
//                                    ModelPurpose::kTrain, {.batch = 3, .seq = 16});

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "nn/experts.h"
#include "nn/model_options.h"

namespace stowage {

/// The linear layers that make queries, keys and values of a block's input.
enum class QkvLayers {
  kSeparate,    // "q_proj", "k_proj" and "v_proj"
  kSideBySide,  // one: all queries, then all keys, then all values
  kHeadByHead,  // one: of each head its query, key and value
};

/// Which queries and keys are normalized together, before they turn, by params
/// "<attention>.q_norm.weight" and "<attention>.k_norm.weight".
enum class QkNorm { kNone, kEachHead, kAllHeads };

/// The linear layers of the feed-forward part.
enum class MlpLayers {
  kGated,            // "gate_proj", "up_proj" and "down_proj"
  kGatedSideBySide,  // "gate_up_proj", gates first, and "down_proj"
  kPlain,            // two, without a gate
};

/// What Hugging Face's model of a family calls its params.
struct LlamaNames {
  std::string_view embedding = "model.embed_tokens.weight";
  std::string_view layers = "model.layers.";  // then the number
  std::string_view norm = "model.norm";
  std::string_view head = "lm_head.weight";
  // Of a layer, behind a dot.
  std::string_view attention = "self_attn";
  std::string_view qkv = "qkv_proj";  // where it is one layer
  std::string_view out = "o_proj";
  std::string_view up = "up_proj", down = "down_proj";  // of a plain mlp
  std::string_view experts = "mlp";                     // nn/experts.h
};

/// The norms of a block by their names in it; empty where there is none.
struct LlamaNorms {
  std::string_view before_attention = "input_layernorm";
  std::string_view after_attention = "";
  std::string_view before_mlp = "post_attention_layernorm";
  std::string_view after_mlp = "";
};

/// How a layer differs from the others.
struct LlamaLayer {
  bool has_window = true;   // of the config, if it has one
  bool turns = true;        // queries and keys, by their positions
  bool has_experts = true;  // of the config, if it has any; else one mlp
};

struct LlamaConfig {
  std::string name;
  int64_t layers = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;  // of keys and values; they divide the heads
  int64_t width = 1;
  int64_t hidden = 1;  // of the feed-forward part
  int64_t vocabulary = 1;
  int64_t max_seq = 1;
  double rope_base = 10000;
  double eps = 1e-5;
  bool tied_head = false;
  int64_t head_size = 0;  // elements of a head; 0 for width / heads
  /// Keys that a query reads, itself included; 0 for all before it.
  int64_t window = 0;
  bool qkv_bias = false;  // of the projections to queries, keys and values
  bool out_bias = false;  // of the projection behind attention
  bool mlp_bias = false;  // of the feed-forward part
  /// Elements of a head that turn, from its first; 0 for all.
  int64_t rope_dims = 0;
  /// Of a pair of elements of a head, by how much slower it turns; empty for none
  /// (nn/rope_scaling.h).
  std::vector<double> rope_factors = {};
  double rope_gain =
      1;  // how much longer queries and keys become, where they turn so
  /// The factors of programs for texts of more than `long_rope_from` tokens; empty where
  /// they have the others.
  std::vector<double> long_rope_factors = {};
  int64_t long_rope_from = 0;
  /// The base of layers with a window, which then have no factors; 0 for rope_base.
  double window_rope_base = 0;
  bool out_in = false;  // linear layers' weights lie (out, in)

  // --- How the families differ ---

  LlamaNames names = {};
  LlamaNorms norms = {};
  bool norms_have_mean = false;  // and a bias, as nn/layers.h's LayerNorm
  /// Norms multiply by 1 + weight.
  bool norms_add_one = false;
  QkvLayers qkv = QkvLayers::kSeparate;
  QkNorm qk_norm = QkNorm::kNone;
  MlpLayers mlp = MlpLayers::kGated;
  GluActivation activation = GluActivation::kSilu;
  /// Of the feed-forward part; its count is 0 where all layers have one mlp. The activation
  /// and initial values are those of the model.
  ExpertsOptions experts = {};
  /// Attention and the feed-forward part read the same x, and both are added to it.
  bool parallel = false;
  /// One a layer, or empty where all are as LlamaLayer is by default.
  std::vector<LlamaLayer> layer_kinds = {};
  double embedding_scale = 1;  // of the rows of the embedding
  double attention_scale = 0;  // of the scores q k^T; 0 for
                               // 1 / sqrt(head size)
  double residual_scale = 1;   // of what is added to the residual stream
  double logit_scale = 1;
  /// If above 0, scores and logits l become cap tanh(l / cap).
  double attention_cap = 0, logit_cap = 0;
};

/// The graph of a Llama, with the inputs, outputs, dropout and chunks of logits of
/// nn/gpt.h. Initial values are normal with deviation 0.02, those of projections into
/// the residual stream with 0.02 / sqrt(2 layers). Errors: batch or seq absent, below 1,
/// or seq above max_seq; a size of `config` below 1; an odd head_size, heads that do not
/// divide the width where none is given, kv_heads that do not divide the heads; a
/// negative window; rope_factors that are not one positive number a pair, a rope_gain that
/// is none; rope_dims that are odd or above the head's; layer_kinds that are not one a
/// layer; queries head by head beside fewer keys; dropout outside [0, 1); an integer dtype;
/// a negative logit_chunk.
Result<Graph> BuildLlama(const LlamaConfig& config, ModelPurpose purpose,
                         const ModelOptions& options);

/// Elements of a head.
int64_t HeadSize(const LlamaConfig& config);
/// Those that turn.
int64_t RopeDims(const LlamaConfig& config);
/// Of layer `i`.
LlamaLayer LayerKindOf(const LlamaConfig& config, int64_t i);

/// Elements of all params of that Llama: with width C, vocabulary V, hidden F, and Q and
/// K elements of the queries and keys of a token, V C (twice if the head is not tied) +
/// layers (2 C Q + 2 C K + 3 C F + 2 C) + C, and what biases, other norms and experts
/// have.
int64_t LlamaParameterCount(const LlamaConfig& config);

}  // namespace stowage

#endif  // STOWAGE_NN_LLAMA_H_
