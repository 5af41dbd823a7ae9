#ifndef STOWAGE_NN_LLAMA_H_
#define STOWAGE_NN_LLAMA_H_

// Llama (Touvron et al. 2023) at any size, and the other families of published decoders that
// are a Llama with other settings, in one table.
//
// A model is a token embedding, pre-norm blocks of causal attention with rotary positions
// and grouped keys and values and of a gated feed-forward part, a final norm, and an output
// layer, which may be the transposed embedding. By default norms have no mean and layers no
// bias. LlamaFamily has the settings that all models of a family share, and how their files
// describe the others; nn/pretrained.h reads these. A new family is a row, as far as
// LlamaConfig has its settings.
//
// Params have the names of Hugging Face's models: "model.embed_tokens.weight"
// (vocabulary, width), "model.layers.<i>.self_attn.q_proj.weight" (width, width), ...,
// "model.norm.weight", "lm_head.weight" (vocabulary, width). A linear layer's weight is
// (in, out), or (out, in) as theirs with `out_in`; the head is (out, in) in either case.
//
//   Result<Graph> graph = BuildLlama({.name = "tiny", .layers = 2, .heads = 4,
//                                     .kv_heads = 2, .width = 32, .hidden = 88,
//                                     .vocabulary = 40, .max_seq = 24},
//                                    ModelPurpose::kTrain, {.batch = 3, .seq = 16});
//
//   const LlamaFamily* family = FindLlamaFamily("gemma2");
//   family->traits.norms.after_mlp == "post_feedforward_layernorm"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "nn/layers.h"
#include "nn/model_options.h"

namespace stowage {

/// The linear layers of queries, keys and values.
enum class QkvLayers {
  kSeparate,    // "q_proj", "k_proj" and "v_proj"
  kSideBySide,  // one: all queries, then all keys, then all values
  kHeadByHead,  // one: for each head its query, key and value
};

/// Normalization of queries and keys before rope, per head or over all heads, by params
/// "<attention>.q_norm.weight" and "<attention>.k_norm.weight".
enum class QkNorm { kNone, kEachHead, kAllHeads };

/// The linear layers of the feed-forward part.
enum class MlpLayers {
  kGated,            // "gate_proj", "up_proj" and "down_proj"
  kGatedSideBySide,  // "gate_up_proj", gates first, and "down_proj"
  kPlain,            // two, without a gate
};

/// The names of the params in Hugging Face's model of a family.
struct LlamaNames {
  std::string_view embedding = "model.embed_tokens.weight";
  std::string_view layers = "model.layers.";  // then the number
  std::string_view norm = "model.norm";
  std::string_view head = "lm_head.weight";
  // Of a layer, after a dot.
  std::string_view attention = "self_attn";
  std::string_view qkv = "qkv_proj";  // if it is one layer
  std::string_view out = "o_proj";
  std::string_view up = "up_proj", down = "down_proj";  // of a plain mlp
  std::string_view experts = "mlp";                     // nn/layers.h
};

/// The names of the norms of a block; empty: none.
struct LlamaNorms {
  std::string_view before_attention = "input_layernorm";
  std::string_view after_attention = "";
  std::string_view before_mlp = "post_attention_layernorm";
  std::string_view after_mlp = "";
};

/// Settings in which layers differ.
struct LlamaLayer {
  bool has_window = true;   // of the config, if it has one
  bool turns = true;        // has rope
  bool has_experts = true;  // if the config has any; else one mlp
};

struct LlamaConfig {
  std::string name;
  int64_t layers = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;  // of keys and values; divides the heads
  int64_t width = 1;
  int64_t hidden = 1;  // of the feed-forward part
  int64_t vocabulary = 1;
  int64_t max_seq = 1;
  double rope_base = 10000;
  double eps = 1e-5;
  bool tied_head = false;
  int64_t head_size = 0;  // elements of a head; 0 for width / heads
  /// Attention window: keys per query, itself included; 0: all.
  int64_t window = 0;
  bool qkv_bias = false;  // of the projections to queries, keys and values
  bool out_bias = false;  // of the output projection of attention
  bool mlp_bias = false;  // of the feed-forward part
  /// Elements of a head with rope, from the first; 0: all.
  int64_t rope_dims = 0;
  /// Divisors of the rotary frequencies, by pair of elements; empty: none
  /// (nn/rope_scaling.h).
  std::vector<double> rope_factors = {};
  double rope_gain = 1;  // factor of queries and keys with such rope
  /// The divisors for programs of more than `long_rope_from` tokens; empty: the same.
  std::vector<double> long_rope_factors = {};
  int64_t long_rope_from = 0;
  /// The base of layers with a window, which then have no divisors; 0: rope_base.
  double window_rope_base = 0;
  bool out_in = false;  // layout of linear layers' weights

  // --- Settings in which families differ ---

  LlamaNames names = {};
  LlamaNorms norms = {};
  bool norms_have_mean = false;  // and a bias, as nn/layers.h's LayerNorm
  /// Norms multiply by 1 + weight.
  bool norms_add_one = false;
  QkvLayers qkv = QkvLayers::kSeparate;
  QkNorm qk_norm = QkNorm::kNone;
  MlpLayers mlp = MlpLayers::kGated;
  GluActivation activation = GluActivation::kSilu;
  /// Experts of the feed-forward part; count 0: none. The activation and initial values are
  /// those of the model.
  ExpertsOptions experts = {};
  /// Attention and feed-forward part both read x, and are both added to it.
  bool parallel = false;
  /// One per layer; empty: all are LlamaLayer{}.
  std::vector<LlamaLayer> layer_kinds = {};
  double embedding_scale = 1;  // of the rows of the embedding
  double attention_scale = 0;  // of the scores q k^T; 0: 1 / sqrt(head size)
  double residual_scale = 1;   // of what a block adds to the residual stream
  double logit_scale = 1;
  /// If above 0, scores and logits l become cap tanh(l / cap).
  double attention_cap = 0, logit_cap = 0;
};

/// The graph of a Llama, with the inputs, outputs, dropout and chunks of logits of
/// nn/gpt.h, or without a head if the options have an embedding. Initial values are normal with deviation 0.02, those of projections into
/// the residual stream with 0.02 / sqrt(2 layers). Errors: batch or seq absent, below 1,
/// or seq above max_seq; a size of `config` below 1; an odd head_size, heads that do not
/// divide the width if none is given, kv_heads that do not divide the heads; a
/// negative window; rope_factors that are not one positive number per pair, a rope_gain that
/// is not positive; rope_dims that are odd or above the head's; layer_kinds that are not one
/// per layer; queries head by head beside fewer keys; dropout outside [0, 1); an integer dtype;
/// a negative logit_chunk.
Result<Graph> BuildLlama(const LlamaConfig& config, ModelPurpose purpose,
                         const ModelOptions& options);

/// Elements of a head.
int64_t HeadSize(const LlamaConfig& config);
/// Elements of a head with rope.
int64_t RopeDims(const LlamaConfig& config);
/// The settings of layer `i`.
LlamaLayer LayerKindOf(const LlamaConfig& config, int64_t i);

/// Elements of all params of that Llama: with width C, vocabulary V, hidden F, and Q and
/// K elements of the queries and keys of a token, V C (twice if the head is not tied) +
/// layers (2 C Q + 2 C K + 3 C F + 2 C) + C, plus biases, other norms and experts.
int64_t LlamaParameterCount(const LlamaConfig& config);

/// The layers that have the window of config.json, unless it has "layer_types".
enum class WindowRule {
  kNone,       // the family has none
  kAll,        // all
  kFromLayer,  // those from "max_window_layers" on, if "use_sliding_window"
  kUnturned,   // those without rope, if "use_sliding_window"
  kPattern,    // all but every LlamaFamily::period-th
};

struct LlamaFamily {
  std::string_view name;          // PublishedModel::family
  std::string_view gguf;          // "general.architecture"
  std::string_view architecture;  // in config.json's "architectures"
  /// Settings of all its models, and defaults of those that config.json may omit.
  LlamaConfig traits = {};
  /// In GGUF files the rows of a rotary pair of q and k are adjacent.
  bool paired_in_gguf = false;

  // --- config.json ---

  bool has_attention_bias = false;  // reads "attention_bias"
  bool has_mlp_bias = false;        // reads "mlp_bias"
  bool turns_in_part = false;       // may have rope_dims
  /// The default of "query_pre_attn_scalar", the square of the divisor of scores; 0: the
  /// family does not have it.
  double query_scalar = 0;
  bool has_caps = false;  // reads "attn_logit_softcapping" and "final_..."
  bool scales_embedding = false;  // by sqrt(width)
  double part_that_turns = 1;     // the default fraction with rope
  WindowRule windows = WindowRule::kNone;
  int64_t period = 1;
  bool has_layer_types = true;  // reads "layer_types", if it has windows
  /// The window of layers that have one, where "sliding_window" is absent, not null; 0: none.
  int64_t default_window = 0;
  /// By default every rope_period-th layer has no rope; 0: all have.
  int64_t rope_period = 0;
  bool has_multipliers = false;  // reads "embedding_multiplier" and the like
  bool is_perhaps_parallel = false;  // reads "use_parallel_residual"
  bool has_experts = false;          // reads "num_experts" and related settings
  /// The key of an expert's size; if "intermediate_size", all layers have experts.
  std::string_view expert_hidden = "intermediate_size";
  bool has_shared_expert = false;  // reads "shared_expert_intermediate_size"
  bool may_normalize = false;      // reads "norm_topk_prob"
  /// Settings that must be false, 0, null or absent.
  std::vector<std::string_view> refused = {};
  std::string_view activation = "hidden_act";
  std::string_view eps = "rms_norm_eps";
  std::string_view rope_base = "rope_theta";
  std::string_view rope_part = "partial_rotary_factor";

  /// Metadata keys that only this family has.
  std::vector<std::string_view> gguf_keys = {};
  bool gguf_out_bias = false;  // files may have out_bias
  bool gguf_mlp_bias = false;
  /// The default window of GGUF files; 0: none.
  int64_t gguf_window = 0;
  /// The number of layers of the model whose scores llama.cpp divides by
  /// sqrt(width / heads), not by sqrt(head size).
  int64_t gguf_wide_layers = 0;
};

/// The default layer settings, by the window of `config` and the family's periods; empty if
/// all layers are alike.
std::vector<LlamaLayer> LayerKindsOf(const LlamaFamily& family,
                                     const LlamaConfig& config);

/// The factor of scores in llama.cpp, for families with a query_scalar.
double GgufAttentionScale(const LlamaFamily& family, const LlamaConfig& config);

/// All families, in the order of messages.
std::span<const LlamaFamily> LlamaFamilies();

/// The architecture without a head, such as "Qwen3Model".
std::string BareArchitecture(const LlamaFamily& family);

/// The family of that name, or null.
const LlamaFamily* FindLlamaFamily(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_NN_LLAMA_H_
