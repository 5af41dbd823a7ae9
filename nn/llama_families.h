#ifndef STOWAGE_NN_LLAMA_FAMILIES_H_
#define STOWAGE_NN_LLAMA_FAMILIES_H_

// The families of published decoders that are a Llama with other settings (nn/llama.h), in
// one table: what all models of a family have in common, and how their files describe the
// rest. A further family is a row, as far as LlamaConfig has what it needs.
//
//   const LlamaFamily* family = FindLlamaFamily("gemma2");
//   family->traits.norms.after_mlp == "post_feedforward_layernorm"

#include <span>
#include <string_view>
#include <vector>

#include "nn/llama.h"

namespace stowage {

/// Which layers of a model have the window of its config.json, where "layer_types" does not
/// say it.
enum class WindowRule {
  kNone,       // the family has none
  kAll,        // all
  kFromLayer,  // those from "max_window_layers" on, if "use_sliding_window"
  kUnturned,   // those without rope, if "use_sliding_window"
  kPattern,    // all but every so many-th: LlamaFamily::period
};

struct LlamaFamily {
  std::string_view name;          // PublishedModel::family
  std::string_view gguf;          // "general.architecture"
  std::string_view architecture;  // in config.json's "architectures"
  /// Of all its models, and where config.json may leave a setting out, its value then.
  LlamaConfig traits = {};
  /// In GGUF files rows of q and k that turn together are neighbours.
  bool paired_in_gguf = false;

  // --- What config.json has ---

  bool has_attention_bias = false;  // reads "attention_bias"
  bool has_mlp_bias = false;        // reads "mlp_bias"
  bool turns_in_part = false;       // of a head perhaps not all elements turn
  /// "query_pre_attn_scalar" where config.json does not say it, the square of what scores
  /// are divided by; 0 where the family does not have it.
  double query_scalar = 0;
  bool has_caps = false;  // reads "attn_logit_softcapping" and "final_..."
  bool scales_embedding = false;  // by the root of the width
  double part_that_turns = 1;     // where config.json does not say it
  WindowRule windows = WindowRule::kNone;
  int64_t period = 1;
  bool has_layer_types = true;  // reads "layer_types", if it has windows
  /// Every so many-th layer has no rope, where config.json does not say it; 0 for none.
  int64_t rope_period = 0;
  bool has_multipliers = false;  // reads "embedding_multiplier" and the like
  bool is_perhaps_parallel = false;  // reads "use_parallel_residual"
  bool has_experts = false;  // reads "num_experts" and what goes with it
  /// The size of an expert; where it is "intermediate_size", all layers have experts.
  std::string_view expert_hidden = "intermediate_size";
  bool has_shared_expert = false;  // reads "shared_expert_intermediate_size"
  bool may_normalize = false;      // reads "norm_topk_prob"
  /// Settings that must be false, 0, null or absent.
  std::vector<std::string_view> refused = {};
  std::string_view activation = "hidden_act";
  std::string_view eps = "rms_norm_eps";
  std::string_view rope_base = "rope_theta";
  std::string_view rope_part = "partial_rotary_factor";

  /// Of GGUF's metadata, what is read of this family alone.
  std::vector<std::string_view> gguf_keys = {};
  bool gguf_out_bias = false;  // files may have biases behind attention
  bool gguf_mlp_bias = false;
  /// The window where GGUF's metadata do not say it; 0 for none.
  int64_t gguf_window = 0;
  /// Layers of the model whose scores llama.cpp divides by the root of width / heads; it
  /// divides those of others by the root of the head size.
  int64_t gguf_wide_layers = 0;
};

/// What the layers are where files do not say it, by the window of `config` and the family's
/// periods; empty where all are alike.
std::vector<LlamaLayer> LayerKindsOf(const LlamaFamily& family,
                                     const LlamaConfig& config);

/// What llama.cpp multiplies scores by, of families with a query_scalar.
double GgufAttentionScale(const LlamaFamily& family, const LlamaConfig& config);

/// In the order of messages.
std::span<const LlamaFamily> LlamaFamilies();

/// Null where there is none of that name.
const LlamaFamily* FindLlamaFamily(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_NN_LLAMA_FAMILIES_H_
