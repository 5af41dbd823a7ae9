// Reads the description of a model from GGUF metadata.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/gguf.h"
#include "ir/tensor_type.h"
#include "nn/llama.h"
#include "nn/model_description.h"
#include "nn/rope_scaling.h"

namespace stowage {
namespace {

class GgufDescription : public Description {
 public:
  explicit GgufDescription(const WeightsFile& file)
      : Description(file), header_(*file.gguf()) {}

  Result<PublishedModel> Describe() {
    const auto family = header_.Text("general.architecture");
    if (!family.ok()) return In(family.error());
    family_ = *family;
    std::vector<std::string> known;
    const auto count = ValueOr(header_.Int(Key("expert_count")), int64_t{0});
    if (!count.ok()) return In(count.error());
    const LlamaFamily* found = nullptr;
    for (const LlamaFamily& family : LlamaFamilies()) {
      if (std::ranges::find(known, family.gguf) == known.end()) {
        known.emplace_back(family.gguf);
      }
      if (family.gguf != family_) continue;
      // An architecture may have models with and without experts.
      if (found == nullptr || (*count != 0 && family.has_experts)) {
        if (found == nullptr || !found->has_experts) found = &family;
      }
    }
    if (found != nullptr) return DescribeAs(*found);
    return Unsupported(StrCat("the architecture ", Quoted(family_),
                              "; those that are read are ", Listed(known)));
  }

 private:
  Result<PublishedModel> DescribeAs(const LlamaFamily& family) {
    STOWAGE_RETURN_IF_ERROR(CheckKeys(family));
    STOWAGE_ASSIGN_OR_RETURN(LlamaConfig config, Sizes(family));
    STOWAGE_RETURN_IF_ERROR(FindRopeFactors(&config));
    STOWAGE_RETURN_IF_ERROR(FindWindow(family, &config));
    config.layer_kinds = LayerKindsOf(family, config);
    STOWAGE_RETURN_IF_ERROR(FindScales(family, &config));
    STOWAGE_RETURN_IF_ERROR(FindExperts(family, &config));
    const auto has = [&](std::string_view name) {
      return file_.Find(name) != nullptr;
    };
    config.tied_head = !has("output.weight");
    config.qkv_bias = has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias");
    config.out_bias = has("blk.0.attn_output.bias");
    config.mlp_bias = has("blk.0.ffn_up.bias");
    return PublishedModel{std::string(family.name), std::move(config)};
  }

  std::string Key(std::string_view name) const {
    return StrCat(family_, ".", name);
  }
  Result<int64_t> Size(std::string_view name) const {
    return CheckSize(Key(name), header_.Int(Key(name)));
  }
  Result<int64_t> SizeOr(std::string_view name, int64_t otherwise) const {
    return CheckSize(Key(name), ValueOr(header_.Int(Key(name)), otherwise));
  }

  // Checks that all keys of the family are read below, or neutral.
  Status CheckKeys(const LlamaFamily& family) const {
    constexpr std::string_view kRead[] = {
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "vocab_size",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "rope.scaling.finetuned"};
    const std::string prefix = family_ + ".";
    for (const auto& [key, value] : header_.values()) {
      if (!key.starts_with(prefix)) continue;
      const std::string_view name = std::string_view(key).substr(prefix.size());
      if (std::ranges::find(kRead, name) != std::end(kRead)) continue;
      if (name == EpsKey(family)) continue;
      if (std::ranges::find(family.gguf_keys, name) != family.gguf_keys.end()) {
        continue;
      }
      const Result<int64_t> number = header_.Int(key);
      if (number.ok() && *number == 0) continue;  // no experts, for one
      return Unsupported(
          StrCat("a ", Quoted(key),
                 (number.ok() ? StrCat(" of ", *number) : std::string()),
                 ", which no model here knows"));
    }
    return {};
  }

  static std::string_view EpsKey(const LlamaFamily& family) {
    return family.traits.norms_have_mean ? "attention.layer_norm_epsilon"
                                         : "attention.layer_norm_rms_epsilon";
  }

  Result<LlamaConfig> Sizes(const LlamaFamily& family) const {
    LlamaConfig config = family.traits;
    STOWAGE_ASSIGN_OR_RETURN(config.layers, Size("block_count"));
    STOWAGE_RETURN_IF_ERROR(CheckLayers(config.layers));
    STOWAGE_ASSIGN_OR_RETURN(config.max_seq, Size("context_length"));
    STOWAGE_ASSIGN_OR_RETURN(config.width, Size("embedding_length"));
    STOWAGE_ASSIGN_OR_RETURN(config.hidden, Size("feed_forward_length"));
    STOWAGE_ASSIGN_OR_RETURN(config.heads, Size("attention.head_count"));
    STOWAGE_ASSIGN_OR_RETURN(config.kv_heads,
                             SizeOr("attention.head_count_kv", config.heads));
    STOWAGE_ASSIGN_OR_RETURN(
        config.head_size,
        SizeOr("attention.key_length",
               std::max<int64_t>(1, config.width / config.heads)));
    STOWAGE_RETURN_IF_ERROR(CheckHeads(config));
    STOWAGE_RETURN_IF_ERROR(
        CheckHeadSize("attention.value_length", config.head_size));
    STOWAGE_ASSIGN_OR_RETURN(const int64_t turning,
                             SizeOr("rope.dimension_count", config.head_size));
    if (!family.turns_in_part) {
      STOWAGE_RETURN_IF_ERROR(
          CheckHeadSize("rope.dimension_count", config.head_size));
    } else if (turning != config.head_size) {
      config.rope_dims = turning;
    }
    const auto eps = header_.Real(Key(EpsKey(family)));
    if (!eps.ok()) return In(eps.error());
    config.eps = *eps;
    if (config.window_rope_base > 0) {
      STOWAGE_ASSIGN_OR_RETURN(
          config.window_rope_base,
          RealOr("rope.freq_base_swa", config.window_rope_base));
      STOWAGE_RETURN_IF_ERROR(CheckRopeBase(config.window_rope_base));
    }
    const auto base = ValueOr(header_.Real(Key("rope.freq_base")), 10000.0);
    if (!base.ok()) return In(base.error());
    config.rope_base = *base;
    STOWAGE_RETURN_IF_ERROR(CheckRopeBase(config.rope_base));
    const WeightTensor* const embedding = file_.Find("token_embd.weight");
    if (embedding == nullptr || embedding->shape.rank() != 2) {
      return file_.Fail("has no matrix \"token_embd.weight\"");
    }
    config.vocabulary = embedding->shape[0];
    return config;
  }

  // Checks that a size, if present, equals the head's.
  Status CheckHeadSize(std::string_view name, int64_t head_size) const {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t size, SizeOr(name, head_size));
    if (size == head_size) return {};
    return Unsupported(StrCat("a ", Quoted(Key(name)), " of ", size,
                              " and heads of ", head_size,
                              "; they must be equal here"));
  }

  static bool Has(const LlamaFamily& family, std::string_view key) {
    return std::ranges::find(family.gguf_keys, key) != family.gguf_keys.end();
  }

  Result<double> RealOr(std::string_view name, double otherwise) const {
    auto value = ValueOr(header_.Real(Key(name)), otherwise);
    if (!value.ok()) return In(value.error());
    return value;
  }

  // 0: no window.
  Status FindWindow(const LlamaFamily& family, LlamaConfig* config) const {
    const char* const name = "attention.sliding_window";
    if (!Has(family, name)) return {};
    const auto window = ValueOr(header_.Int(Key(name)), family.gguf_window);
    if (!window.ok()) return In(window.error());
    config->window = 0;
    if (*window != 0) {
      STOWAGE_ASSIGN_OR_RETURN(config->window,
                               SizeOr(name, family.gguf_window));
    }
    return {};
  }

  Status FindScales(const LlamaFamily& family, LlamaConfig* config) const {
    if (family.scales_embedding) {
      config->embedding_scale = std::sqrt(static_cast<double>(config->width));
    }
    if (family.query_scalar > 0) {
      config->attention_scale = GgufAttentionScale(family, *config);
    }
    if (family.has_multipliers) {
      double divisor = 1;
      for (const auto& [name, scale] :
           {std::pair("embedding_scale", &config->embedding_scale),
            std::pair("residual_scale", &config->residual_scale),
            std::pair("attention.scale", &config->attention_scale),
            std::pair("logit_scale", &divisor)}) {
        if (header_.Find(Key(name)) == nullptr) continue;
        STOWAGE_ASSIGN_OR_RETURN(*scale, RealOr(name, *scale));
        STOWAGE_RETURN_IF_ERROR(CheckPositive(Quoted(Key(name)), *scale));
      }
      config->logit_scale = 1 / divisor;
    }
    if (family.is_perhaps_parallel) {
      const auto parallel =
          ValueOr(header_.Bool(Key("use_parallel_residual")), config->parallel);
      if (!parallel.ok()) return In(parallel.error());
      config->parallel = *parallel;
    }
    for (const auto& [name, cap] :
         {std::pair("attn_logit_softcapping", &config->attention_cap),
          std::pair("final_logit_softcapping", &config->logit_cap)}) {
      if (!Has(family, name)) continue;
      STOWAGE_ASSIGN_OR_RETURN(*cap, RealOr(name, *cap));
      if (*cap == 0) continue;  // none
      STOWAGE_RETURN_IF_ERROR(CheckPositive(Quoted(Key(name)), *cap));
    }
    return {};
  }

  Status FindExperts(const LlamaFamily& family, LlamaConfig* config) const {
    if (!family.has_experts) return {};
    ExpertsOptions& experts = config->experts;
    STOWAGE_ASSIGN_OR_RETURN(experts.count, Size("expert_count"));
    STOWAGE_ASSIGN_OR_RETURN(experts.per_token, Size("expert_used_count"));
    STOWAGE_ASSIGN_OR_RETURN(
        experts.hidden, SizeOr("expert_feed_forward_length", config->hidden));
    if (family.has_shared_expert) {
      STOWAGE_ASSIGN_OR_RETURN(
          experts.shared_hidden,
          SizeOr("expert_shared_feed_forward_length", config->hidden));
    }
    return {};
  }

  // Reads a tensor of rope factors, if present.
  Result<std::vector<double>> Factors(std::string_view name,
                                      const LlamaConfig& config) const {
    const WeightTensor* const factors = file_.Find(name);
    if (factors == nullptr) return std::vector<double>();
    const int64_t pairs = RopeDims(config) / 2;
    if (factors->type != WeightType::kF32 || factors->shape != Shape{pairs} ||
        !config.rope_factors.empty()) {
      return file_.Fail(StrCat("has ", Quoted(name), " as ",
                               factors->Describe(), "; expected F32(", pairs,
                               "), and no other scaling of rope"));
    }
    std::vector<float> numbers(static_cast<size_t>(pairs));
    STOWAGE_RETURN_IF_ERROR(file_.ReadFloats(*factors, 0, numbers));
    return std::vector<double>(numbers.begin(), numbers.end());
  }

  // LongRoPE's two lists.
  Status FindLongRope(LlamaConfig* config) const {
    STOWAGE_ASSIGN_OR_RETURN(config->long_rope_factors,
                             Factors("rope_factors_long.weight", *config));
    STOWAGE_ASSIGN_OR_RETURN(std::vector<double> factors,
                             Factors("rope_factors_short.weight", *config));
    if (factors.empty() && config->long_rope_factors.empty()) return {};
    if (factors.empty() || config->long_rope_factors.empty()) {
      return file_.Fail(
          "has one of \"rope_factors_long.weight\" and "
          "\"rope_factors_short.weight\"; expected both");
    }
    config->rope_factors = std::move(factors);
    STOWAGE_ASSIGN_OR_RETURN(
        config->long_rope_from,
        SizeOr("rope.scaling.original_context_length", config->max_seq));
    const auto gain =
        ValueOr(header_.Real(Key("rope.scaling.attn_factor")), 1.0);
    if (!gain.ok()) return In(gain.error());
    config->rope_gain = *gain;
    return {};
  }

  Status FindRopeFactors(LlamaConfig* config) const {
    const auto pairs = static_cast<size_t>(RopeDims(*config) / 2);
    const std::string key = Key("rope.scaling.type");
    // As in llama.cpp, a factor without a type is linear.
    const bool has_factor = header_.Find(Key("rope.scaling.factor")) != nullptr;
    const auto type = ValueOr<std::string_view>(
        header_.Text(key), std::string_view(has_factor ? "linear" : "none"));
    if (!type.ok()) return In(type.error());
    if (*type == "linear") {
      const auto factor = header_.Real(Key("rope.scaling.factor"));
      if (!factor.ok()) return In(factor.error());
      config->rope_factors.assign(pairs, *factor);
    } else if (*type == "yarn") {
      STOWAGE_RETURN_IF_ERROR(FindYarn(config));
    } else if (*type != "none" && *type != "longrope") {
      return Unsupported(StrCat("a ", Quoted(key), " of ", Quoted(*type),
                                "; linear, longrope, yarn and none are known "
                                "here"));
    }
    // Llama 3's precomputed factors.
    STOWAGE_ASSIGN_OR_RETURN(std::vector<double> factors,
                             Factors("rope_freqs.weight", *config));
    if (!factors.empty()) config->rope_factors = std::move(factors);
    STOWAGE_RETURN_IF_ERROR(FindLongRope(config));
    if (*type == "longrope" && config->long_rope_factors.empty()) {
      return file_.Fail(StrCat("has a ", Quoted(key),
                               " of \"longrope\" and no "
                               "\"rope_factors_long.weight\""));
    }
    return {};
  }

  Status FindYarn(LlamaConfig* config) const {
    YarnRopeScaling scaling;
    const auto real = [&](std::string_view name, double otherwise) {
      return ValueOr(header_.Real(Key(name)), otherwise);
    };
    const auto factor = header_.Real(Key("rope.scaling.factor"));
    if (!factor.ok()) return In(factor.error());
    scaling.factor = *factor;
    STOWAGE_ASSIGN_OR_RETURN(
        const int64_t positions,
        SizeOr("rope.scaling.original_context_length", config->max_seq));
    scaling.original_positions = static_cast<double>(positions);
    const auto fast = real("rope.scaling.yarn_beta_fast", scaling.fast_turns);
    if (!fast.ok()) return In(fast.error());
    scaling.fast_turns = *fast;
    const auto slow = real("rope.scaling.yarn_beta_slow", scaling.slow_turns);
    if (!slow.ok()) return In(slow.error());
    scaling.slow_turns = *slow;
    const Status possible = CheckYarn(scaling);
    if (!possible.ok()) return In(possible.error());
    config->rope_factors =
        YarnRopeFactors(RopeDims(*config), config->rope_base, scaling);
    config->rope_gain = YarnGain(scaling.factor);
    return {};
  }

  const GgufHeader& header_;
  std::string family_;
};

}  // namespace

Result<PublishedModel> DescribeByGguf(const WeightsFile& file) {
  return GgufDescription(file).Describe();
}

}  // namespace stowage
