#include "nn/gguf_form.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"
#include "nn/llama.h"
#include "nn/lora.h"
#include "nn/model_description.h"
#include "nn/pretrained.h"
#include "nn/rope_scaling.h"

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

// Encoders are not written to GGUF files (train/gguf_export.h).
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

// The numbers are those of llama.cpp's llama_ftype.
constexpr GgufMix kMixes[] = {
    {"f32", WeightType::kF32, 0},      {"f16", WeightType::kF16, 1},
    {"bf16", WeightType::kBF16, 32},   {"q8_0", WeightType::kQ8_0, 7},
    {"q4_0", WeightType::kQ4_0, 2},    {"q4_1", WeightType::kQ4_1, 3},
    {"q5_0", WeightType::kQ5_0, 8},    {"q5_1", WeightType::kQ5_1, 9},
    {"q4_k_s", WeightType::kQ4_K, 14}, {"q4_k_m", WeightType::kQ4_K, 15},
    {"q5_k_s", WeightType::kQ5_K, 16}, {"q5_k_m", WeightType::kQ5_K, 17},
    {"q6_k", WeightType::kQ6_K, 18}};

bool IsFloat(WeightType type) { return FormatOf(type).numbers == 1; }

// The layer of a tensor: 7 for "blk.7.ffn_down.weight".
int64_t LayerOf(std::string_view tensor) {
  const std::string number(tensor.substr(tensor.find('.') + 1));
  return std::strtoll(number.c_str(), nullptr, 10);
}

// True for the first and last eighth of the layers, and every third between.
bool HasMoreBits(int64_t layer, int64_t layers) {
  const int64_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

// True for value projections, alone or fused with queries and keys.
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
  // For the architecture llama, 80 layers without grouped keys are the 65B.
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

int64_t GgufRows::RowOfFile(int64_t row, int64_t rows) const {
  if (paired > 0) {
    const int64_t half = row % paired / (paired / 2);
    return row / paired * paired + 2 * (row % (paired / 2)) + half;
  }
  if (head_by_head > 0) {
    const int64_t head = row / (3 * head_by_head);
    const int64_t part = row / head_by_head % 3;
    return part * (rows / 3) + head * head_by_head + row % head_by_head;
  }
  return row;
}

int64_t GgufRows::RowOfModel(int64_t row, int64_t rows) const {
  if (paired > 0) {
    const int64_t within = row % paired;
    return row - within + within % 2 * (paired / 2) + within / 2;
  }
  if (head_by_head > 0) {
    const int64_t part = row / (rows / 3);
    const int64_t head = row % (rows / 3) / head_by_head;
    return (3 * head + part) * head_by_head + row % head_by_head;
  }
  return row;
}

GgufRows GgufRowsOf(const PublishedModel& model, std::string_view param) {
  const auto* const llama = std::get_if<LlamaConfig>(&model.config);
  if (llama == nullptr) return {};
  const LlamaFamily* const family = FindLlamaFamily(model.family);
  const auto is_of = [&](std::string_view layer) {
    return param.find(StrCat(".", layer, ".")) != param.npos;
  };
  GgufRows rows;
  if (family != nullptr && family->paired_in_gguf &&
      (is_of("q_proj") || is_of("k_proj"))) {
    rows.paired = HeadSize(*llama);
  }
  if (llama->qkv == QkvLayers::kHeadByHead && is_of(llama->names.qkv)) {
    rows.head_by_head = HeadSize(*llama);
  }
  if (llama->norms_add_one && param.ends_with("norm.weight")) rows.added = 1;
  return rows;
}

namespace {

class GgufKeys {
 public:
  GgufKeys(const PretrainedModel& model, GgufMetadata* metadata)
      : model_(model), config_(*model.file().config()), metadata_(metadata) {}

  Status Add() {
    const std::string& name = model_.model().family;
    family_ = FindLlamaFamily(name);
    arch_ = family_ == nullptr ? name : std::string(family_->gguf);
    metadata_->Set("general.architecture", arch_);
    metadata_->Set("general.type", "model");
    metadata_->Set("general.name", NameOfModel());
    const auto* const llama = std::get_if<LlamaConfig>(&model_.model().config);
    if (llama != nullptr) return AddLlama(*llama);
    AddGpt(std::get<GptConfig>(model_.model().config));
    return {};
  }

 private:
  template <typename T>
  void Set(std::string_view name, T value) {
    metadata_->Set(StrCat(arch_, ".", name), value);
  }
  void SetSize(std::string_view name, int64_t size) {
    Set(name, static_cast<uint32_t>(size));
  }

  Error CannotSay(std::string_view what) const {
    return model_.file().Fail(
        StrCat("has ", what, ", which GGUF files of the architecture ",
               Quoted(arch_), " cannot say; write safetensors"),
        ErrorCode::kUnsupported);
  }

  // The name of its folder.
  std::string NameOfModel() const {
    std::filesystem::path path = model_.file().path();
    if (path.has_extension() && !std::filesystem::is_directory(path)) {
      path = path.parent_path();
    }
    if (path.filename().empty()) path = path.parent_path();
    std::error_code ignored;
    const auto whole = std::filesystem::weakly_canonical(path, ignored);
    const std::string name = whole.filename().string();
    return name.empty() ? arch_ : name;
  }

  // Returns whether the architecture has the key.
  bool Has(std::string_view key) const {
    const auto& keys = family_->gguf_keys;
    return std::ranges::find(keys, key) != keys.end();
  }

  Status AddLlama(const LlamaConfig& config) {
    STOWAGE_RETURN_IF_ERROR(CheckImplied(config));
    SetSize("block_count", config.layers);
    const bool has_window = Has("attention.sliding_window");
    // Without a key for the window, the context is limited to it.
    SetSize("context_length", config.window == 0 || has_window
                                  ? config.max_seq
                                  : std::min(config.window, config.max_seq));
    if (has_window) SetSize("attention.sliding_window", config.window);
    SetSize("embedding_length", config.width);
    SetSize("feed_forward_length", config.hidden);
    SetSize("attention.head_count", config.heads);
    SetSize("attention.head_count_kv", config.kv_heads);
    SetSize("attention.key_length", config.head_size);
    SetSize("attention.value_length", config.head_size);
    Set(config.norms_have_mean ? "attention.layer_norm_epsilon"
                               : "attention.layer_norm_rms_epsilon",
        static_cast<float>(config.eps));
    Set("rope.freq_base", static_cast<float>(config.rope_base));
    if (config.window_rope_base > 0) {
      Set("rope.freq_base_swa", static_cast<float>(config.window_rope_base));
    }
    if (family_->paired_in_gguf) SetSize("vocab_size", config.vocabulary);
    if (family_->paired_in_gguf || family_->turns_in_part) {
      SetSize("rope.dimension_count", RopeDims(config));
    }
    if (family_->has_multipliers) {
      Set("attention.scale", static_cast<float>(config.attention_scale));
      Set("embedding_scale", static_cast<float>(config.embedding_scale));
      Set("residual_scale", static_cast<float>(config.residual_scale));
      Set("logit_scale", static_cast<float>(1 / config.logit_scale));
    }
    if (family_->has_experts) {
      const ExpertsOptions& experts = config.experts;
      SetSize("expert_count", experts.count);
      SetSize("expert_used_count", experts.per_token);
      if (Has("expert_feed_forward_length")) {
        SetSize("expert_feed_forward_length", experts.hidden);
      }
      if (family_->has_shared_expert) {
        SetSize("expert_shared_feed_forward_length", experts.shared_hidden);
      }
    }
    if (family_->is_perhaps_parallel) {
      Set("use_parallel_residual", config.parallel);
    }
    if (Has("attn_logit_softcapping")) {
      Set("attn_logit_softcapping", static_cast<float>(config.attention_cap));
    }
    if (Has("final_logit_softcapping")) {
      Set("final_logit_softcapping", static_cast<float>(config.logit_cap));
    }
    return AddRopeScaling(config);
  }

  // Checks that settings without a key have llama.cpp's defaults.
  Status CheckImplied(const LlamaConfig& config) const {
    if (config.activation != family_->traits.activation) {
      return CannotSay(StrCat("a ", Quoted(family_->activation), " of ",
                              Quoted(*config_.Text(family_->activation))));
    }
    if (config.out_bias != family_->traits.out_bias &&
        !(config.out_bias && family_->gguf_out_bias)) {
      return CannotSay(config.out_bias ? "an \"attention_bias\""
                                       : "no \"attention_bias\"");
    }
    if (config.mlp_bias && !family_->gguf_mlp_bias) {
      return CannotSay("an \"mlp_bias\"");
    }
    if (config.experts.normalized != family_->traits.experts.normalized) {
      return CannotSay(StrCat("a \"norm_topk_prob\" of ",
                              config.experts.normalized ? "true" : "false"));
    }
    const char* const cap = "attn_logit_softcapping";
    if ((config.attention_cap > 0) != Has(cap)) {
      return CannotSay(StrCat(Has(cap) ? "no " : "an ", Quoted(cap)));
    }
    if (family_->query_scalar > 0) {
      const double implied = GgufAttentionScale(*family_, config);
      if (std::abs(config.attention_scale / implied - 1) > 1e-6) {
        const double scale = config.attention_scale;
        return CannotSay(
            StrCat("a \"query_pre_attn_scalar\" of ", 1 / (scale * scale)));
      }
    }
    return CheckLayers(config);
  }

  Status CheckLayers(const LlamaConfig& config) const {
    const bool has_window = Has("attention.sliding_window");
    if (config.window == 0 && family_->gguf_window > 0) {
      return CannotSay("no \"sliding_window\"");
    }
    LlamaConfig implied = config;
    implied.layer_kinds = LayerKindsOf(*family_, config);
    for (int64_t i = 0; i < config.layers; ++i) {
      const LlamaLayer layer = LayerKindOf(config, i);
      const LlamaLayer other = LayerKindOf(implied, i);
      if (has_window && config.window > 0 &&
          layer.has_window != other.has_window) {
        return CannotSay(StrCat("a layer ", i,
                                layer.has_window ? " with" : " without",
                                " the \"sliding_window\""));
      }
      if (layer.has_experts != other.has_experts) {
        return CannotSay(StrCat("a layer ", i, " without experts"));
      }
      if (layer.turns != other.turns) {
        return CannotSay(
            StrCat("a layer ", i, layer.turns ? " with" : " without", " rope"));
      }
    }
    return {};
  }

  Status AddRopeScaling(const LlamaConfig& config) {
    if (config.rope_factors.empty()) return {};
    const std::string where = PathOfRope(config_);
    const auto type = TypeOfScaling(where);
    if (!config.long_rope_factors.empty()) {
      if (!Has("rope.scaling.attn_factor")) {
        return CannotSay(StrCat("a scaling of rope of type ", Quoted(type)));
      }
      SetSize("rope.scaling.original_context_length", config.long_rope_from);
      Set("rope.scaling.attn_factor", static_cast<float>(config.rope_gain));
      return {};  // and tensors of factors
    }
    if (type == "llama3") {
      if (arch_ == "llama") return {};  // a tensor of factors
      return CannotSay("a scaling of rope of type \"llama3\"");
    }
    const auto factor = config_.Real(where + "factor");
    if (!factor.ok()) return factor.error();
    Set("rope.scaling.type", std::string_view(type));
    Set("rope.scaling.factor", static_cast<float>(*factor));
    if (type == "linear") return {};
    const auto truncate = config_.Bool(where + "truncate");
    if (truncate.ok() && !*truncate) {
      return CannotSay("a \"truncate\" of false in YaRN");
    }
    if (config.rope_gain != YarnGain(*factor)) {
      return CannotSay(StrCat("an attention factor of ", config.rope_gain,
                              " beside YaRN's own, ", YarnGain(*factor)));
    }
    const auto positions =
        config_.Int(where + "original_max_position_embeddings");
    SetSize("rope.scaling.original_context_length",
            positions.ok() ? *positions : config.max_seq);
    const auto fast = config_.Real(where + "beta_fast");
    if (fast.ok()) {
      Set("rope.scaling.yarn_beta_fast", static_cast<float>(*fast));
    }
    const auto slow = config_.Real(where + "beta_slow");
    if (slow.ok()) {
      Set("rope.scaling.yarn_beta_slow", static_cast<float>(*slow));
    }
    return {};
  }

  std::string TypeOfScaling(const std::string& where) const {
    const auto type = config_.Text(where + "rope_type");
    return type.ok() ? *type : *config_.Text(where + "type");
  }

  void AddGpt(const GptConfig& config) {
    SetSize("block_count", config.layers);
    SetSize("context_length", config.max_seq);
    SetSize("embedding_length", config.width);
    SetSize("feed_forward_length", 4 * config.width);
    SetSize("attention.head_count", config.heads);
    Set("attention.layer_norm_epsilon", 1e-5f);
  }

  const PretrainedModel& model_;
  const JsonValues& config_;
  GgufMetadata* const metadata_;
  const LlamaFamily* family_ = nullptr;  // null of GPT-2
  std::string arch_;
};

}  // namespace

Status AddGgufKeys(const PretrainedModel& model, GgufMetadata* metadata) {
  STOWAGE_CHECK(model.file().config() != nullptr);
  return GgufKeys(model, metadata).Add();
}

std::vector<GgufFactors> RopeFactorsInGguf(const PretrainedModel& model) {
  const auto* const llama = std::get_if<LlamaConfig>(&model.model().config);
  const JsonValues* const config = model.file().config();
  if (llama == nullptr || config == nullptr) return {};
  const auto floats = [](const std::vector<double>& factors) {
    return std::vector<float>(factors.begin(), factors.end());
  };
  if (!llama->long_rope_factors.empty()) {
    return {{"rope_factors_long.weight", floats(llama->long_rope_factors)},
            {"rope_factors_short.weight", floats(llama->rope_factors)}};
  }
  for (const char* const key : {"rope_type", "type"}) {
    const auto type = config->Text(PathOfRope(*config) + key);
    if (!type.ok()) continue;
    if (*type != "llama3" || llama->rope_factors.empty()) return {};
    return {{"rope_freqs.weight", floats(llama->rope_factors)}};
  }
  return {};
}

}  // namespace stowage
