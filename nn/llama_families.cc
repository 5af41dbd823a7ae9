#include "nn/llama_families.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace stowage {
namespace {

LlamaConfig Qwen2() {
  LlamaConfig config;
  config.eps = 1e-6;
  config.qkv_bias = true;
  return config;
}

LlamaConfig Qwen3() {
  LlamaConfig config;
  config.eps = 1e-6;
  config.head_size = 128;
  config.qk_norm = QkNorm::kEachHead;
  return config;
}

LlamaConfig Plain() {
  LlamaConfig config;
  config.eps = 1e-6;
  return config;
}

LlamaConfig Phi3() {
  LlamaConfig config;
  config.qkv = QkvLayers::kSideBySide;
  config.mlp = MlpLayers::kGatedSideBySide;
  return config;
}

LlamaConfig Gemma2() {
  LlamaConfig config;
  config.eps = 1e-6;
  config.head_size = 256;
  config.tied_head = true;
  config.norms = {.after_attention = "post_attention_layernorm",
                  .before_mlp = "pre_feedforward_layernorm",
                  .after_mlp = "post_feedforward_layernorm"};
  config.norms_add_one = true;
  config.activation = GluActivation::kGeluTanh;
  config.attention_cap = 50;
  config.logit_cap = 30;
  config.window = 4096;
  return config;
}

LlamaConfig Gemma3() {
  LlamaConfig config = Gemma2();
  config.qk_norm = QkNorm::kEachHead;
  config.attention_cap = config.logit_cap = 0;
  config.rope_base = 1e6;
  config.window_rope_base = 1e4;
  return config;
}

LlamaConfig SmolLm3() {
  LlamaConfig config;
  config.eps = 1e-6;
  config.tied_head = true;
  config.rope_base = 2e6;
  return config;
}

LlamaConfig Olmo2() {
  LlamaConfig config;
  config.norms = {.before_attention = "",
                  .after_attention = "post_attention_layernorm",
                  .before_mlp = "",
                  .after_mlp = "post_feedforward_layernorm"};
  config.qk_norm = QkNorm::kAllHeads;
  return config;
}

LlamaConfig GptNeoX() {
  LlamaConfig config;
  config.names = {.embedding = "gpt_neox.embed_in.weight",
                  .layers = "gpt_neox.layers.",
                  .norm = "gpt_neox.final_layer_norm",
                  .head = "embed_out.weight",
                  .attention = "attention",
                  .qkv = "query_key_value",
                  .out = "dense",
                  .up = "dense_h_to_4h",
                  .down = "dense_4h_to_h"};
  config.norms_have_mean = true;
  config.qkv_bias = config.out_bias = config.mlp_bias = true;
  config.qkv = QkvLayers::kHeadByHead;
  config.mlp = MlpLayers::kPlain;
  config.activation = GluActivation::kGeluErf;
  config.parallel = true;
  return config;
}

LlamaConfig Mixtral() {
  LlamaConfig config;
  config.names.experts = "block_sparse_moe";
  config.experts = {.gate = "w1", .up = "w3", .down = "w2"};
  return config;
}

LlamaConfig Qwen2Moe() {
  LlamaConfig config = Qwen2();
  config.experts.normalized = false;
  return config;
}

LlamaConfig Qwen3Moe() {
  LlamaConfig config;
  config.eps = 1e-6;
  config.qk_norm = QkNorm::kEachHead;
  return config;
}

LlamaConfig Olmoe() {
  LlamaConfig config;
  config.qk_norm = QkNorm::kAllHeads;
  config.experts.normalized = false;
  return config;
}

std::vector<LlamaFamily> MakeFamilies() {
  std::vector<LlamaFamily> families = {
      {.name = "llama",
       .gguf = "llama",
       .architecture = "LlamaForCausalLM",
       .traits = Plain(),
       .paired_in_gguf = true,
       .has_attention_bias = true,
       .has_mlp_bias = true,
       .gguf_out_bias = true,
       .gguf_mlp_bias = true},
      {.name = "mistral",
       .gguf = "llama",
       .architecture = "MistralForCausalLM",
       .traits = Plain(),
       .paired_in_gguf = true,
       .windows = WindowRule::kAll},
      {.name = "qwen2",
       .gguf = "qwen2",
       .architecture = "Qwen2ForCausalLM",
       .traits = Qwen2(),
       .windows = WindowRule::kFromLayer},
      {.name = "qwen3",
       .gguf = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .traits = Qwen3(),
       .has_attention_bias = true,
       .windows = WindowRule::kFromLayer},
      {.name = "phi3",
       .gguf = "phi3",
       .architecture = "Phi3ForCausalLM",
       .traits = Phi3(),
       .turns_in_part = true,
       .windows = WindowRule::kAll,
       .has_layer_types = false,
       .gguf_keys = {"attention.sliding_window", "rope.scaling.attn_factor"}},
      {.name = "gemma2",
       .gguf = "gemma2",
       .architecture = "Gemma2ForCausalLM",
       .traits = Gemma2(),
       .has_attention_bias = true,
       .query_scalar = 256,
       .has_caps = true,
       .scales_embedding = true,
       .windows = WindowRule::kPattern,
       .period = 2,
       .activation = "hidden_activation",
       .gguf_keys = {"attention.sliding_window", "attn_logit_softcapping",
                     "final_logit_softcapping"},
       .gguf_window = 4096,
       .gguf_wide_layers = 46},
      {.name = "gemma3",
       .gguf = "gemma3",
       .architecture = "Gemma3ForCausalLM",
       .traits = Gemma3(),
       .has_attention_bias = true,
       .query_scalar = 256,
       .has_caps = true,
       .scales_embedding = true,
       .windows = WindowRule::kPattern,
       .period = 6,
       .activation = "hidden_activation",
       .gguf_keys = {"attention.sliding_window", "rope.freq_base_swa",
                     "final_logit_softcapping"},
       .gguf_wide_layers = 62},
      {.name = "smollm3",
       .gguf = "smollm3",
       .architecture = "SmolLM3ForCausalLM",
       .traits = SmolLm3(),
       .paired_in_gguf = true,
       .has_attention_bias = true,
       .has_mlp_bias = true,
       .windows = WindowRule::kUnturned,
       .rope_period = 4},
      {.name = "olmo2",
       .gguf = "olmo2",
       .architecture = "Olmo2ForCausalLM",
       .traits = Olmo2(),
       .has_attention_bias = true},
      {.name = "granite",
       .gguf = "granite",
       .architecture = "GraniteForCausalLM",
       .traits = Plain(),
       .paired_in_gguf = true,
       .has_attention_bias = true,
       .has_mlp_bias = true,
       .has_multipliers = true,
       .gguf_keys = {"attention.scale", "embedding_scale", "residual_scale",
                     "logit_scale"},
       .gguf_out_bias = true,
       .gguf_mlp_bias = true},
      {.name = "gptneox",
       .gguf = "gptneox",
       .architecture = "GPTNeoXForCausalLM",
       .traits = GptNeoX(),
       .has_attention_bias = true,
       .turns_in_part = true,
       .part_that_turns = 0.25,
       .is_perhaps_parallel = true,
       .eps = "layer_norm_eps",
       .rope_base = "rotary_emb_base",
       .rope_part = "rotary_pct",
       .gguf_keys = {"use_parallel_residual"},
       .gguf_out_bias = true,
       .gguf_mlp_bias = true},
      {.name = "mixtral",
       .gguf = "llama",
       .architecture = "MixtralForCausalLM",
       .traits = Mixtral(),
       .paired_in_gguf = true,
       .windows = WindowRule::kAll,
       .has_experts = true,
       .refused = {"router_jitter_noise"},
       .gguf_keys = {"expert_count", "expert_used_count"}},
      {.name = "qwen2moe",
       .gguf = "qwen2moe",
       .architecture = "Qwen2MoeForCausalLM",
       .traits = Qwen2Moe(),
       .has_experts = true,
       .expert_hidden = "moe_intermediate_size",
       .has_shared_expert = true,
       .may_normalize = true,
       .refused = {"use_sliding_window"},
       .gguf_keys = {"expert_count", "expert_used_count",
                     "expert_feed_forward_length",
                     "expert_shared_feed_forward_length"}},
      {.name = "qwen3moe",
       .gguf = "qwen3moe",
       .architecture = "Qwen3MoeForCausalLM",
       .traits = Qwen3Moe(),
       .has_attention_bias = true,
       .has_experts = true,
       .expert_hidden = "moe_intermediate_size",
       .may_normalize = true,
       .refused = {"use_sliding_window"},
       .gguf_keys = {"expert_count", "expert_used_count",
                     "expert_feed_forward_length"}},
      {.name = "olmoe",
       .gguf = "olmoe",
       .architecture = "OlmoeForCausalLM",
       .traits = Olmoe(),
       .has_attention_bias = true,
       .has_experts = true,
       .may_normalize = true,
       .refused = {"clip_qkv"},
       .gguf_keys = {"expert_count", "expert_used_count",
                     "expert_feed_forward_length"}},
  };
  for (LlamaFamily& family : families) {
    family.traits.name = family.name;
    family.traits.out_in = true;
  }
  return families;
}

}  // namespace

std::vector<LlamaLayer> LayerKindsOf(const LlamaFamily& family,
                                     const LlamaConfig& config) {
  const bool has_pattern = family.windows == WindowRule::kPattern;
  std::vector<LlamaLayer> kinds;
  if (!has_pattern && family.rope_period == 0) return kinds;
  for (int64_t i = 1; i <= config.layers; ++i) {
    LlamaLayer layer;
    if (has_pattern) {
      layer.has_window = config.window > 0 && i % family.period != 0;
    }
    if (family.rope_period > 0) layer.turns = i % family.rope_period != 0;
    kinds.push_back(layer);
  }
  return kinds;
}

double GgufAttentionScale(const LlamaFamily& family,
                          const LlamaConfig& config) {
  const int64_t divisor = config.layers == family.gguf_wide_layers
                              ? config.width / config.heads
                              : HeadSize(config);
  return 1 / std::sqrt(static_cast<double>(divisor));
}

std::span<const LlamaFamily> LlamaFamilies() {
  static const std::vector<LlamaFamily>& families =
      *new std::vector<LlamaFamily>(MakeFamilies());
  return families;
}

const LlamaFamily* FindLlamaFamily(std::string_view name) {
  const auto families = LlamaFamilies();
  const auto found = std::ranges::find(families, name, &LlamaFamily::name);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace stowage
