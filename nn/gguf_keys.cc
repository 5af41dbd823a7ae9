#include "nn/gguf_keys.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <variant>

#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"
#include "nn/llama_families.h"
#include "nn/model_description.h"
#include "nn/rope_scaling.h"

namespace stowage {
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

  // Whether this architecture has the key.
  bool Has(std::string_view key) const {
    const auto& keys = family_->gguf_keys;
    return std::ranges::find(keys, key) != keys.end();
  }

  Status AddLlama(const LlamaConfig& config) {
    STOWAGE_RETURN_IF_ERROR(CheckImplied(config));
    SetSize("block_count", config.layers);
    const bool has_window = Has("attention.sliding_window");
    // A window without a key is left out; within it there is none.
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

  // That what has no key is as llama.cpp takes it to be.
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
