#include "nn/llama_families.h"

#include <algorithm>
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

std::vector<LlamaFamily> MakeFamilies() {
  std::vector<LlamaFamily> families = {
      {.name = "llama",
       .gguf = "llama",
       .architecture = "LlamaForCausalLM",
       .traits = Plain(),
       .paired_in_gguf = true,
       .has_attention_bias = true,
       .has_mlp_bias = true},
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
       .gguf_keys = {"attention.sliding_window", "rope.scaling.attn_factor"}},
  };
  for (LlamaFamily& family : families) {
    family.traits.name = family.name;
    family.traits.out_in = true;
  }
  return families;
}

}  // namespace

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
