#include "nn/gguf_form.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "nn/llama.h"
#include "nn/lora.h"

namespace stowage {
namespace {

using GgufPart = std::pair<std::string, std::string_view>;  // ours, GGUF's

std::vector<GgufPart> PartsOf(const GptConfig&, bool of_layer) {
  if (!of_layer) {
    return {{"wte", "token_embd"},
            {"wpe", "position_embd"},
            {"ln_f", "output_norm"},
            {"lm_head", "output"}};
  }
  return {{"ln_1", "attn_norm"},          {"attn.c_attn", "attn_qkv"},
          {"attn.c_proj", "attn_output"}, {"ln_2", "ffn_norm"},
          {"mlp.c_fc", "ffn_up"},         {"mlp.c_proj", "ffn_down"}};
}

// Encoders have no form in GGUF files here (train/gguf_export.h).
std::vector<GgufPart> PartsOf(const EncoderConfig&, bool) { return {}; }

std::vector<GgufPart> PartsOf(const LlamaConfig& config, bool of_layer) {
  const LlamaNames& names = config.names;
  const LlamaNorms& norms = config.norms;
  if (!of_layer) {
    return {{std::string(LayerOfWeight(names.embedding)), "token_embd"},
            {std::string(names.norm), "output_norm"},
            {std::string(LayerOfWeight(names.head)), "output"}};
  }
  const auto of_attention = [&](std::string_view part) {
    return StrCat(names.attention, ".", part);
  };
  const auto of_experts = [&](std::string_view matrix) {
    return StrCat(names.experts, ".experts.", matrix);
  };
  const bool is_plain = config.mlp == MlpLayers::kPlain;
  return {{std::string(norms.before_attention), "attn_norm"},
          {std::string(norms.after_attention), "post_attention_norm"},
          {std::string(norms.before_mlp), "ffn_norm"},
          {std::string(norms.after_mlp), "post_ffw_norm"},
          {of_attention("q_proj"), "attn_q"},
          {of_attention("k_proj"), "attn_k"},
          {of_attention("v_proj"), "attn_v"},
          {of_attention(names.qkv), "attn_qkv"},
          {of_attention("q_norm"), "attn_q_norm"},
          {of_attention("k_norm"), "attn_k_norm"},
          {of_attention(names.out), "attn_output"},
          {StrCat(names.experts, ".gate"), "ffn_gate_inp"},
          {of_experts(config.experts.gate), "ffn_gate_exps"},
          {of_experts(config.experts.up), "ffn_up_exps"},
          {of_experts(config.experts.down), "ffn_down_exps"},
          {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
          {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
          {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
          {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
          {"mlp.gate_proj", "ffn_gate"},
          {"mlp.gate_up_proj", "ffn_up"},
          {StrCat("mlp.", is_plain ? names.up : "up_proj"), "ffn_up"},
          {StrCat("mlp.", is_plain ? names.down : "down_proj"), "ffn_down"}};
}

// llama.cpp's llama_ftype has the numbers.
constexpr GgufMix kMixes[] = {
    {"f32", WeightType::kF32, 0},      {"f16", WeightType::kF16, 1},
    {"bf16", WeightType::kBF16, 32},   {"q8_0", WeightType::kQ8_0, 7},
    {"q4_0", WeightType::kQ4_0, 2},    {"q4_1", WeightType::kQ4_1, 3},
    {"q5_0", WeightType::kQ5_0, 8},    {"q5_1", WeightType::kQ5_1, 9},
    {"q4_k_s", WeightType::kQ4_K, 14}, {"q4_k_m", WeightType::kQ4_K, 15},
    {"q5_k_s", WeightType::kQ5_K, 16}, {"q5_k_m", WeightType::kQ5_K, 17},
    {"q6_k", WeightType::kQ6_K, 18}};

bool IsFloat(WeightType type) { return FormatOf(type).numbers == 1; }

// Of "blk.7.ffn_down.weight", 7.
int64_t LayerOf(std::string_view tensor) {
  const std::string number(tensor.substr(tensor.find('.') + 1));
  return std::strtoll(number.c_str(), nullptr, 10);
}

// The first and the last eighth of the layers, and every third between.
bool HasMoreBits(int64_t layer, int64_t layers) {
  const int64_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

// Values of attention, alone or with queries and keys.
WeightType TypeOfValues(const GgufMix& mix, const GgufMixFacts& facts,
                        int64_t layer) {
  WeightType type = mix.usual;
  if (mix.name.ends_with("_k_m") && HasMoreBits(layer, facts.layers)) {
    type = WeightType::kQ6_K;
  } else if (mix.name == "q4_k_s" && layer < 4) {
    type = WeightType::kQ5_K;
  }
  if (facts.is_70b && type == WeightType::kQ4_K) type = WeightType::kQ5_K;
  return type;
}

WeightType TypeOfDown(const GgufMix& mix, const GgufMixFacts& facts,
                      int64_t layer) {
  if (mix.name.ends_with("_k_m") && HasMoreBits(layer, facts.layers)) {
    return WeightType::kQ6_K;
  }
  if (mix.name == "q4_k_s" && layer < facts.layers / 8) {
    return WeightType::kQ5_K;
  }
  return mix.usual;
}

WeightType TypeBeforeShape(const GgufMix& mix, const GgufMixFacts& facts,
                           std::string_view tensor, int64_t row) {
  if (tensor == "output.weight" ||
      (facts.tied_head && tensor == "token_embd.weight")) {
    const bool fits = row % FormatOf(mix.usual).numbers == 0;
    return fits && mix.usual != WeightType::kQ8_0 ? WeightType::kQ6_K
                                                  : WeightType::kQ8_0;
  }
  if (tensor.ends_with("attn_v.weight") ||
      tensor.ends_with("attn_qkv.weight")) {
    return TypeOfValues(mix, facts, LayerOf(tensor));
  }
  if (tensor.find("ffn_down") != tensor.npos) {
    return TypeOfDown(mix, facts, LayerOf(tensor));
  }
  return mix.usual;
}

}  // namespace

std::string GgufName(const PublishedModel& model, std::string_view param) {
  const auto* const llama = std::get_if<LlamaConfig>(&model.config);
  const std::string_view layers = llama == nullptr ? "h." : llama->names.layers;
  const bool is_bare = param == "wte" || param == "wpe";
  const size_t dot = is_bare ? param.size() : param.rfind('.');
  std::string_view stem = param.substr(0, dot);
  const std::string_view kind =
      is_bare ? ".weight" : param.substr(dot);  // ".weight", ".bias"
  std::string layer;
  if (stem.starts_with(layers)) {
    stem = stem.substr(layers.size());
    const size_t end = stem.find('.');
    layer = StrCat("blk.", stem.substr(0, end), ".");
    stem = stem.substr(end + 1);
  }
  const std::vector<GgufPart> parts = std::visit(
      [&](const auto& config) { return PartsOf(config, !layer.empty()); },
      model.config);
  const auto found = std::ranges::find(parts, stem, &GgufPart::first);
  STOWAGE_CHECK(found != parts.end());
  return StrCat(layer, found->second, kind);
}

bool IsTransposedInGguf(const PublishedModel& model, std::string_view param) {
  return std::holds_alternative<GptConfig>(model.config) &&
         (param.ends_with(".c_attn.weight") ||
          param.ends_with(".c_proj.weight") || param.ends_with(".c_fc.weight"));
}

Result<GgufMix> ParseGgufMix(std::string_view name) {
  const auto found = std::ranges::find(kMixes, name, &GgufMix::name);
  if (found != std::end(kMixes)) return *found;
  std::string names;
  for (const GgufMix& mix : kMixes) {
    names += StrCat(names.empty() ? "" : ", ", mix.name);
  }
  return InvalidArgumentError("[gguf] there is no type ", Quoted(name),
                              "; expected one of ", names);
}

GgufMixFacts MixFactsOf(const PublishedModel& model) {
  GgufMixFacts facts;
  std::visit(
      [&](const auto& config) {
        facts.layers = config.layers;
        if constexpr (requires { config.tied_head; }) {
          facts.tied_head = config.tied_head;
        }
      },
      model.config);
  const auto* const llama = std::get_if<LlamaConfig>(&model.config);
  // Of the architecture llama, 80 layers of heads with keys of their own are the 65B.
  const bool is_llama = model.family == "llama" || model.family == "mistral";
  const bool may_be =
      model.family == "qwen2" || (is_llama && llama->heads != llama->kv_heads);
  facts.is_70b = may_be && facts.layers == 80;
  return facts;
}

bool IsInMix(std::string_view tensor, const Shape& shape) {
  return shape.rank() >= 2 && tensor.ends_with("weight") &&
         !tensor.ends_with("_norm.weight") &&
         tensor.find("ffn_gate_inp") == tensor.npos &&  // routers
         tensor != "position_embd.weight";
}

WeightType TypeInMix(const GgufMix& mix, const GgufMixFacts& facts,
                     std::string_view tensor, const Shape& shape) {
  if (IsFloat(mix.usual)) return mix.usual;
  const int64_t row = shape.back();
  const auto fits = [&](WeightType type) {
    return row % FormatOf(type).numbers == 0;
  };
  WeightType type = TypeBeforeShape(mix, facts, tensor, row);
  if (fits(type)) return type;
  if (type == WeightType::kQ4_K) type = WeightType::kQ5_0;
  if (type == WeightType::kQ5_K) type = WeightType::kQ5_1;
  if (type == WeightType::kQ6_K) type = WeightType::kQ8_0;
  return fits(type) ? type : WeightType::kF16;
}

}  // namespace stowage
