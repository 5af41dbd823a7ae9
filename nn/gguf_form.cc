#include "nn/gguf_form.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <span>
#include <variant>

#include "base/check.h"
#include "base/errors.h"
#include "base/strings.h"

namespace stowage {
namespace {

struct GgufPart {
  std::string_view ours, gguf;
};
constexpr GgufPart kGgufEnds[] = {{"model.embed_tokens", "token_embd"},
                                  {"model.norm", "output_norm"},
                                  {"lm_head", "output"},
                                  {"wte", "token_embd"},
                                  {"wpe", "position_embd"},
                                  {"ln_f", "output_norm"}};
constexpr GgufPart kGgufParts[] = {{"input_layernorm", "attn_norm"},
                                   {"self_attn.q_proj", "attn_q"},
                                   {"self_attn.k_proj", "attn_k"},
                                   {"self_attn.v_proj", "attn_v"},
                                   {"self_attn.q_norm", "attn_q_norm"},
                                   {"self_attn.k_norm", "attn_k_norm"},
                                   {"self_attn.o_proj", "attn_output"},
                                   {"post_attention_layernorm", "ffn_norm"},
                                   {"mlp.gate_proj", "ffn_gate"},
                                   {"mlp.up_proj", "ffn_up"},
                                   {"mlp.down_proj", "ffn_down"},
                                   {"ln_1", "attn_norm"},
                                   {"attn.c_attn", "attn_qkv"},
                                   {"attn.c_proj", "attn_output"},
                                   {"ln_2", "ffn_norm"},
                                   {"mlp.c_fc", "ffn_up"},
                                   {"mlp.c_proj", "ffn_down"}};

// llama.cpp's llama_ftype has the numbers.
constexpr GgufMix kMixes[] = {
    {"f32", WeightType::kF32, 0},      {"f16", WeightType::kF16, 1},
    {"bf16", WeightType::kBF16, 32},   {"q8_0", WeightType::kQ8_0, 7},
    {"q4_0", WeightType::kQ4_0, 2},    {"q4_1", WeightType::kQ4_1, 3},
    {"q5_0", WeightType::kQ5_0, 8},    {"q5_1", WeightType::kQ5_1, 9},
    {"q4_k_s", WeightType::kQ4_K, 14}, {"q4_k_m", WeightType::kQ4_K, 15},
    {"q5_k_s", WeightType::kQ5_K, 16}, {"q5_k_m", WeightType::kQ5_K, 17},
    {"q6_k", WeightType::kQ6_K, 18}};

constexpr std::string_view kOfLayers[] = {"model.layers.", "h."};

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
  if (tensor.ends_with("ffn_down.weight")) {
    return TypeOfDown(mix, facts, LayerOf(tensor));
  }
  return mix.usual;
}

}  // namespace

std::string GgufName(std::string_view param) {
  const bool is_bare = param == "wte" || param == "wpe";
  const size_t dot = is_bare ? param.size() : param.rfind('.');
  std::string_view stem = param.substr(0, dot);
  const std::string_view kind =
      is_bare ? ".weight" : param.substr(dot);  // ".weight", ".bias"
  std::string layer;
  for (const std::string_view prefix : kOfLayers) {
    if (!layer.empty() || !stem.starts_with(prefix)) continue;
    stem = stem.substr(prefix.size());
    const size_t end = stem.find('.');
    layer = StrCat("blk.", stem.substr(0, end), ".");
    stem = stem.substr(end + 1);
  }
  const std::span<const GgufPart> parts =
      layer.empty() ? std::span<const GgufPart>(kGgufEnds)
                    : std::span<const GgufPart>(kGgufParts);
  const auto found = std::ranges::find(parts, stem, &GgufPart::ours);
  STOWAGE_CHECK(found != parts.end());
  return StrCat(layer, found->gguf, kind);
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
        facts.tied_head = config.tied_head;
      },
      model.config);
  const auto* const llama = std::get_if<LlamaConfig>(&model.config);
  // Of the architecture llama, 80 layers of heads with keys of their own are the 65B.
  const bool may_be =
      model.family == "qwen2" || (llama != nullptr && model.family != "qwen3" &&
                                  llama->heads != llama->kv_heads);
  facts.is_70b = may_be && facts.layers == 80;
  return facts;
}

bool IsInMix(std::string_view tensor, const Shape& shape) {
  return shape.rank() >= 2 && tensor.ends_with("weight") &&
         !tensor.ends_with("_norm.weight") && tensor != "position_embd.weight";
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

namespace {

class GgufKeys {
 public:
  GgufKeys(const PretrainedModel& model, GgufMetadata* metadata)
      : model_(model), config_(*model.file().config()), metadata_(metadata) {}

  Status Add() {
    const std::string& family = model_.model().family;
    arch_ = family == "mistral" ? "llama" : family;
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

  // What its folder is called.
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

  Status AddLlama(const LlamaConfig& config) {
    SetSize("block_count", config.layers);
    // A window has no key; within it there is none.
    SetSize("context_length", config.window == 0
                                  ? config.max_seq
                                  : std::min(config.window, config.max_seq));
    SetSize("embedding_length", config.width);
    SetSize("feed_forward_length", config.hidden);
    SetSize("attention.head_count", config.heads);
    SetSize("attention.head_count_kv", config.kv_heads);
    SetSize("attention.key_length", config.head_size);
    SetSize("attention.value_length", config.head_size);
    Set("attention.layer_norm_rms_epsilon", static_cast<float>(config.eps));
    Set("rope.freq_base", static_cast<float>(config.rope_base));
    if (arch_ == "llama") {
      SetSize("vocab_size", config.vocabulary);
      SetSize("rope.dimension_count", config.head_size);
    } else if (config.out_bias) {
      return CannotSay("an \"attention_bias\"");
    }
    return AddRopeScaling(config);
  }

  Status AddRopeScaling(const LlamaConfig& config) {
    if (config.rope_factors.empty()) return {};
    const std::string where =
        config_.HasBelow("rope_scaling") ? "rope_scaling." : "rope_parameters.";
    const auto type = TypeOfScaling(where);
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
  std::string arch_;
};

}  // namespace

Status AddGgufKeys(const PretrainedModel& model, GgufMetadata* metadata) {
  STOWAGE_CHECK(model.file().config() != nullptr);
  return GgufKeys(model, metadata).Add();
}

bool HasRopeFreqs(const PretrainedModel& model) {
  const auto* const llama = std::get_if<LlamaConfig>(&model.model().config);
  const JsonValues* const config = model.file().config();
  if (llama == nullptr || config == nullptr || llama->rope_factors.empty()) {
    return false;
  }
  for (const char* const key :
       {"rope_scaling.rope_type", "rope_scaling.type",
        "rope_parameters.rope_type", "rope_parameters.type"}) {
    const auto type = config->Text(key);
    if (type.ok()) return *type == "llama3";
  }
  return false;
}

}  // namespace stowage
