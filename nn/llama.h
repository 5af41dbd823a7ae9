#ifndef STOWAGE_NN_LLAMA_H_
#define STOWAGE_NN_LLAMA_H_

// Builds Llama (Touvron et al. 2023) at any size, and the published decoder families that differ
// from Llama only in their settings, such as Mistral, Qwen and Gemma.
//
// A model consists of a token embedding, pre-norm transformer blocks, a final norm, and an output
// layer, which may share the embedding's matrix. A block has causal grouped-query attention with
// rotary position embeddings (RoPE), and a gated feed-forward network. By default, norms are
// RMSNorm and linear layers have no bias. LlamaFamilies() is the table of supported families. A
// LlamaFamily contains the settings that all models of the family share, and describes how the
// files of a model specify its other settings. nn/pretrained.h reads the files. To add a family
// whose settings LlamaConfig has, it suffices to add an entry to the table.
//
// Params have the names of Hugging Face's models: "model.embed_tokens.weight" (vocabulary, width),
// "model.layers.<i>.self_attn.q_proj.weight" (width, width), ..., "model.norm.weight",
// "lm_head.weight" (vocabulary, width). The weights of linear layers are laid out (in, out). If
// `out_in` is set, they are laid out (out, in), as in Hugging Face's models. The weight of the
// output layer is always (out, in).
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

/// The linear layers that compute queries, keys and values.
enum class QkvLayers {
  kSeparate,    // "q_proj", "k_proj" and "v_proj"
  kSideBySide,  // one layer: all queries, then all keys, then all values
  kHeadByHead,  // one layer: the query, key and value of each head in turn
};

/// The normalization of queries and keys before RoPE, over each head or over all heads together.
/// The weights are the params "<attention>.q_norm.weight" and "<attention>.k_norm.weight".
enum class QkNorm { kNone, kEachHead, kAllHeads };

/// The linear layers of the feed-forward network.
enum class MlpLayers {
  kGated,            // "gate_proj", "up_proj" and "down_proj"
  kGatedSideBySide,  // "gate_up_proj", with the gate first, and "down_proj"
  kPlain,            // two layers without a gate
};

/// The names of the params in Hugging Face's models of a family.
struct LlamaNames {
  std::string_view embedding = "model.embed_tokens.weight";
  std::string_view layers = "model.layers.";  // followed by the layer's index
  std::string_view norm = "model.norm";
  std::string_view head = "lm_head.weight";
  // The following names are preceded by a layer's name and a dot.
  std::string_view attention = "self_attn";
  std::string_view qkv = "qkv_proj";  // unless QkvLayers::kSeparate
  std::string_view out = "o_proj";
  std::string_view up = "up_proj", down = "down_proj";  // if MlpLayers::kPlain
  std::string_view experts = "mlp";  // the layer of Experts (nn/layers.h)
};

/// The names of the norms of a block. The block lacks a norm whose name is empty.
struct LlamaNorms {
  std::string_view before_attention = "input_layernorm";
  std::string_view after_attention = "";
  std::string_view before_mlp = "post_attention_layernorm";
  std::string_view after_mlp = "";
};

/// The settings that may differ between the layers of a model.
struct LlamaLayer {
  bool has_window = true;   // whether LlamaConfig::window applies
  bool turns = true;        // whether RoPE rotates queries and keys
  bool has_experts = true;  // whether experts replace the MLP
};

struct LlamaConfig {
  std::string name;
  int64_t layers = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;  // heads of keys and values; divides `heads`
  int64_t width = 1;
  int64_t hidden = 1;  // hidden units of the feed-forward network
  int64_t vocabulary = 1;
  int64_t max_seq = 1;
  double rope_base = 10000;
  double eps = 1e-5;
  bool tied_head = false;
  int64_t head_size = 0;  // elements of a head; 0 means width / heads
  /// The number of keys that a query attends to, up to and including its own. 0 means all.
  int64_t window = 0;
  bool qkv_bias = false;  // query, key and value projections have biases
  bool out_bias = false;  // the output projection of attention has a bias
  bool mlp_bias = false;  // the feed-forward network has biases
  /// The number of leading elements of a head that RoPE rotates. 0 means all.
  int64_t rope_dims = 0;
  /// Divisors of the rotary frequencies, one for each rotated pair of elements
  /// (nn/rope_scaling.h). If empty, frequencies are not scaled.
  std::vector<double> rope_factors = {};
  double rope_gain = 1;  // multiplies queries and keys if factors are used
  /// Divisors for graphs whose maximum text length, which is ModelOptions::cache or else
  /// ModelOptions::seq, exceeds `long_rope_from` tokens. If empty, `rope_factors` apply at all
  /// lengths.
  std::vector<double> long_rope_factors = {};
  int64_t long_rope_from = 0;
  /// The RoPE base of layers with a window. If it is not 0, these layers do not use the divisors. 0
  /// means that they have the same RoPE as the layers without a window.
  double window_rope_base = 0;
  bool out_in = false;  // lays out the weights of linear layers as (out, in)

  // --- Settings that differ between families ---

  LlamaNames names = {};
  LlamaNorms norms = {};
  bool norms_have_mean = false;  // norms are LayerNorm, with a bias
  /// RMSNorm multiplies by 1 + weight instead of by the weight.
  bool norms_add_one = false;
  QkvLayers qkv = QkvLayers::kSeparate;
  QkNorm qk_norm = QkNorm::kNone;
  MlpLayers mlp = MlpLayers::kGated;
  GluActivation activation = GluActivation::kSilu;
  /// The experts that replace the feed-forward network (Experts in nn/layers.h). A count of 0 means
  /// none. LlamaConfig::activation replaces ExpertsOptions::activation, and the initial values of
  /// BuildLlama replace ExpertsOptions::down_init.
  ExpertsOptions experts = {};
  /// Whether attention and the feed-forward network both read the input of the block, which is
  /// added to both outputs.
  bool parallel = false;
  /// The settings of each layer. If empty, every layer has LlamaLayer{}.
  std::vector<LlamaLayer> layer_kinds = {};
  double embedding_scale = 1;  // multiplies the rows of the embedding
  /// The factor of the attention scores q k^T. 0 means 1 / sqrt(head size).
  double attention_scale = 0;
  double residual_scale = 1;  // multiplies the outputs of attention and MLP
  double logit_scale = 1;
  /// The caps of attention scores and of logits. If a cap c is above 0, a score or logit x becomes
  /// c tanh(x / c).
  double attention_cap = 0, logit_cap = 0;
};

/// Returns the graph of a Llama. It has the inputs, the outputs, the dropout and the chunked logits
/// that BuildGpt (nn/gpt.h) describes. If `options.embedding` is set, the graph has no output
/// layer, and its inputs and outputs are as ModelOptions::embedding describes.
///
/// Initial weights are normal with standard deviation 0.02, or 0.02 / sqrt(2 layers) for the
/// projections into the residual stream.
///
/// Propagates errors of CheckTextModelOptions. Returns kInvalidArgument if
/// - a size of `config` is below 1,
/// - `head_size` is negative or odd, or is 0 and width / heads is not an even integer,
/// - `kv_heads` does not divide `heads`, or differs from it with QkvLayers::kHeadByHead,
/// - `window` is negative,
/// - `rope_dims` is negative, odd or above the head size,
/// - a list of RoPE factors is not empty and does not have one positive number per rotated pair,
/// - `rope_gain` is not a finite positive number,
/// - `layer_kinds` is not empty and does not have one element per layer, or
/// - `experts.count` is above 0, and `per_token` or `hidden` is below 1, or `per_token` is above
///   `count`.
Result<Graph> BuildLlama(const LlamaConfig& config, ModelPurpose purpose,
                         const ModelOptions& options);

/// Returns the number of elements of a head.
int64_t HeadSize(const LlamaConfig& config);
/// Returns the number of elements of a head that RoPE rotates.
int64_t RopeDims(const LlamaConfig& config);
/// Returns the settings of layer `i`.
LlamaLayer LayerKindOf(const LlamaConfig& config, int64_t i);

/// Returns the number of elements of all params. Let C be the width, V the vocabulary, F the number
/// of hidden units, Q = heads * head size, and K = kv_heads * head size. With the default settings,
/// the number is V C + V C + layers (2 C Q + 2 C K + 3 C F + 2 C) + C, or V C less if the head is
/// tied. Biases, additional norms, a feed-forward network without a gate, and experts are counted,
/// too.
int64_t LlamaParameterCount(const LlamaConfig& config);

/// The layers to which the window in config.json applies if config.json has no "layer_types".
enum class WindowRule {
  kNone,       // no layer: models of the family have no window
  kAll,        // all layers
  kFromLayer,  // layers from "max_window_layers" on, if "use_sliding_window"
  kUnturned,   // layers without RoPE, if "use_sliding_window"
  kPattern,    // all layers but every LlamaFamily::period-th
};

struct LlamaFamily {
  std::string_view name;          // PublishedModel::family
  std::string_view gguf;          // GGUF's "general.architecture"
  std::string_view architecture;  // an element of config.json's "architectures"
  /// The settings that all models of the family share, and defaults of settings that config.json
  /// may omit.
  LlamaConfig traits = {};
  /// Whether the two rows of each rotated pair of q and k are adjacent in GGUF files.
  bool paired_in_gguf = false;

  // --- Settings of config.json ---

  bool has_attention_bias = false;  // reads "attention_bias"
  bool has_mlp_bias = false;        // reads "mlp_bias"
  bool turns_in_part = false;       // models may rotate only part of a head
  /// The default of "query_pre_attn_scalar". Attention scores are divided by its square root. 0
  /// means that the family does not have this setting.
  double query_scalar = 0;
  /// Reads "attn_logit_softcapping" and "final_logit_softcapping".
  bool has_caps = false;
  bool scales_embedding = false;  // multiplies the embedding by sqrt(width)
  double part_that_turns = 1;  // default fraction of a head that RoPE rotates
  WindowRule windows = WindowRule::kNone;
  int64_t period = 1;
  bool has_layer_types = true;  // reads "layer_types", if it has windows
  /// The window if "sliding_window" is absent. If this number is 0, or if "sliding_window" is null,
  /// the window is `traits.window`.
  int64_t default_window = 0;
  /// By default, every rope_period-th layer has no RoPE. 0 means that all layers have it.
  int64_t rope_period = 0;
  bool has_multipliers = false;      // reads "embedding_multiplier" and others
  bool is_perhaps_parallel = false;  // reads "use_parallel_residual"
  bool has_experts = false;          // reads "num_experts" and related settings
  /// The key of the number of hidden units of an expert. If the key is "intermediate_size", all
  /// layers have experts.
  std::string_view expert_hidden = "intermediate_size";
  bool has_shared_expert = false;  // reads "shared_expert_intermediate_size"
  bool may_normalize = false;      // reads "norm_topk_prob"
  /// Keys of unsupported settings, whose values must be false, 0, null or absent.
  std::vector<std::string_view> refused = {};
  std::string_view activation = "hidden_act";
  std::string_view eps = "rms_norm_eps";
  std::string_view rope_base = "rope_theta";
  std::string_view rope_part = "partial_rotary_factor";

  /// The GGUF metadata keys that this family uses and that not all families use.
  std::vector<std::string_view> gguf_keys = {};
  bool gguf_out_bias = false;  // files may contain the biases of `out_bias`
  bool gguf_mlp_bias = false;
  /// The window if the GGUF file does not specify one. 0 means none.
  int64_t gguf_window = 0;
  /// For a model with this number of layers, llama.cpp divides attention scores by
  /// sqrt(width / heads) instead of sqrt(head size).
  int64_t gguf_wide_layers = 0;
};

/// Returns the default settings of each layer of a model of `family`. They follow from the number
/// of layers and the window of `config`, and from the `period` and `rope_period` of `family`.
/// Returns an empty vector if all layers have the same default settings.
std::vector<LlamaLayer> LayerKindsOf(const LlamaFamily& family,
                                     const LlamaConfig& config);

/// Returns the factor by which llama.cpp multiplies the attention scores of a model whose family
/// has a `query_scalar`.
double GgufAttentionScale(const LlamaFamily& family, const LlamaConfig& config);

/// Returns all families, in the order in which messages list them.
std::span<const LlamaFamily> LlamaFamilies();

/// Returns the architecture name of the family's models without their output layer, such as
/// "Qwen3Model".
std::string BareArchitecture(const LlamaFamily& family);

/// Returns the family named `name`, or null if there is none.
const LlamaFamily* FindLlamaFamily(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_NN_LLAMA_H_
