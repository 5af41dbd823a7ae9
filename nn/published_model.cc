#include "nn/published_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "formats/json.h"
#include "formats/weights_file.h"
#include "nn/llama.h"
#include "nn/model_description.h"
#include "nn/rope_scaling.h"

namespace stowage {
namespace {

// Reads the rotary position settings of a config.json.
class ConfigRope : public ConfigValues {
 public:
  using ConfigValues::ConfigValues;

  // transformers 5 writes "rope_parameters", and prefers "rope_scaling".
  Status Find(const LlamaFamily& family, LlamaConfig* config) const {
    const std::string where = PathOfRope(config_);
    STOWAGE_ASSIGN_OR_RETURN(const double base,
                             RealOr(family.rope_base, config->rope_base));
    STOWAGE_ASSIGN_OR_RETURN(config->rope_base,
                             RealOr(where + "rope_theta", base));
    STOWAGE_RETURN_IF_ERROR(CheckRopeBase(config->rope_base));
    if (config->window_rope_base > 0) {
      STOWAGE_RETURN_IF_ERROR(FindWindowRope(config));
    }
    STOWAGE_RETURN_IF_ERROR(FindRopeDims(family, where, config));
    std::string type = "default";
    for (const char* const name : {"type", "rope_type"}) {
      const auto value = ValueOr(config_.Text(where + name), type);
      if (!value.ok()) return In(value.error());
      type = *value;
    }
    if (type == "default") return {};
    const bool has_lists = config_.HasBelow(where + "long_factor");
    if (type == "longrope" || type == "su" || (type == "yarn" && has_lists)) {
      return FindLongRope(where, config);
    }
    if (type != "linear" && type != "llama3" && type != "yarn") {
      return Unsupported(StrCat("a scaling of rope of type ", Quoted(type),
                                "; linear, llama3, longrope and yarn are known "
                                "here"));
    }
    const auto number = [&](std::string_view name) -> Result<double> {
      auto value = config_.Real(StrCat(where, name));
      if (!value.ok()) return In(value.error());
      return value;
    };
    STOWAGE_ASSIGN_OR_RETURN(const double factor, number("factor"));
    if (type == "linear") {
      config->rope_factors.assign(static_cast<size_t>(RopeDims(*config) / 2),
                                  factor);
      return {};
    }
    if (type == "yarn") return FindYarn(where, factor, config);
    Llama3RopeScaling scaling{.factor = factor};
    STOWAGE_ASSIGN_OR_RETURN(scaling.low_frequency_factor,
                             number("low_freq_factor"));
    STOWAGE_ASSIGN_OR_RETURN(scaling.high_frequency_factor,
                             number("high_freq_factor"));
    STOWAGE_ASSIGN_OR_RETURN(scaling.original_positions,
                             number("original_max_position_embeddings"));
    if (const Status possible = CheckLlama3Rope(scaling); !possible.ok()) {
      return In(possible.error());
    }
    config->rope_factors =
        Llama3RopeFactors(RopeDims(*config), config->rope_base, scaling);
    return {};
  }

 private:
  // Rope of layers with a window, which has its own base.
  Status FindWindowRope(LlamaConfig* config) const {
    const std::string where = "rope_parameters.sliding_attention.";
    STOWAGE_ASSIGN_OR_RETURN(
        const double base,
        RealOr("rope_local_base_freq", config->window_rope_base));
    STOWAGE_ASSIGN_OR_RETURN(config->window_rope_base,
                             RealOr(where + "rope_theta", base));
    STOWAGE_RETURN_IF_ERROR(CheckRopeBase(config->window_rope_base));
    return OneOf(where + "rope_type", "default", {"default"});
  }

  Status FindRopeDims(const LlamaFamily& family, const std::string& where,
                      LlamaConfig* config) const {
    STOWAGE_ASSIGN_OR_RETURN(const double beside,
                             RealOr(family.rope_part, family.part_that_turns));
    STOWAGE_ASSIGN_OR_RETURN(const double part,
                             RealOr(where + "partial_rotary_factor", beside));
    if (part == 1) return {};
    if (!family.turns_in_part || !(part > 0 && part < 1)) {
      return Unsupported(StrCat("a ", Quoted(family.rope_part), " of ", part,
                                family.turns_in_part
                                    ? "; expected a part of 1"
                                    : "; here whole heads turn"));
    }
    config->rope_dims =
        static_cast<int64_t>(static_cast<double>(config->head_size) * part);
    return {};
  }

  Result<std::vector<double>> Reals(const std::string& path) const {
    std::vector<double> numbers;
    while (config_.Has(StrCat(path, ".", numbers.size()))) {
      const auto number = config_.Real(StrCat(path, ".", numbers.size()));
      if (!number.ok()) return In(number.error());
      numbers.push_back(*number);
    }
    return numbers;
  }

  Status FindLongRope(const std::string& where, LlamaConfig* config) const {
    STOWAGE_ASSIGN_OR_RETURN(config->rope_factors,
                             Reals(where + "short_factor"));
    STOWAGE_ASSIGN_OR_RETURN(config->long_rope_factors,
                             Reals(where + "long_factor"));
    for (const auto& [name, factors] :
         {std::pair("short_factor", config->rope_factors),
          std::pair("long_factor", config->long_rope_factors)}) {
      if (std::ssize(factors) == RopeDims(*config) / 2) continue;
      return file_.Fail(StrCat("has ", factors.size(), " numbers of ",
                               Quoted(where + name), "; expected ",
                               RopeDims(*config) / 2, ", one a pair"));
    }
    const char* const name = "original_max_position_embeddings";
    STOWAGE_ASSIGN_OR_RETURN(const int64_t within,
                             SizeOr(where + name, config->max_seq));
    STOWAGE_ASSIGN_OR_RETURN(config->long_rope_from, SizeOr(name, within));
    const auto original = static_cast<double>(config->long_rope_from);
    STOWAGE_ASSIGN_OR_RETURN(
        const double factor,
        RealOr(where + "factor",
               static_cast<double>(config->max_seq) / original));
    if (original <= 1) {
      return file_.Fail(StrCat("has a ", Quoted(name), " of ", original,
                               "; expected 2 or more"));
    }
    STOWAGE_ASSIGN_OR_RETURN(
        config->rope_gain,
        RealOr(where + "attention_factor", LongRopeGain(factor, original)));
    return {};
  }

  Status FindYarn(const std::string& where, double factor,
                  LlamaConfig* config) const {
    YarnRopeScaling scaling{.factor = factor};
    STOWAGE_ASSIGN_OR_RETURN(scaling.original_positions,
                             RealOr(where + "original_max_position_embeddings",
                                    static_cast<double>(config->max_seq)));
    STOWAGE_ASSIGN_OR_RETURN(scaling.fast_turns,
                             RealOr(where + "beta_fast", scaling.fast_turns));
    STOWAGE_ASSIGN_OR_RETURN(scaling.slow_turns,
                             RealOr(where + "beta_slow", scaling.slow_turns));
    STOWAGE_ASSIGN_OR_RETURN(scaling.truncate,
                             BoolOr(where + "truncate", scaling.truncate));
    const Status possible = CheckYarn(scaling);
    if (!possible.ok()) return In(possible.error());
    config->rope_factors =
        YarnRopeFactors(RopeDims(*config), config->rope_base, scaling);
    STOWAGE_ASSIGN_OR_RETURN(const double of_queries,
                             RealOr(where + "mscale", 0));
    STOWAGE_ASSIGN_OR_RETURN(const double of_scores,
                             RealOr(where + "mscale_all_dim", 0));
    const double usual =
        of_queries != 0 && of_scores != 0
            ? YarnGain(factor, of_queries) / YarnGain(factor, of_scores)
            : YarnGain(factor);
    STOWAGE_ASSIGN_OR_RETURN(config->rope_gain,
                             RealOr(where + "attention_factor", usual));
    return {};
  }
};

std::string TextOf(const JsonValues::Value& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "null";
        } else if constexpr (std::is_same_v<T, bool>) {
          return held ? "true" : "false";
        } else {
          return StrCat(held);
        }
      },
      value);
}

// Reads the config.json of a decoder or, by DescribeEncoder, of an encoder.
class JsonDescription : public ConfigValues {
 public:
  using ConfigValues::ConfigValues;

  Result<PublishedModel> Describe() const {
    const auto architecture = config_.Text("architectures.0");
    if (!architecture.ok()) return In(architecture.error());
    if (config_.HasBelow("quantization_config")) {
      return Unsupported(StrCat("a \"quantization_config\"",
                                QuantizationSettings(),
                                "; quantized weights are read from GGUF files "
                                "alone: convert the folder, or take its "
                                "original in floats"));
    }
    if (auto encoder = DescribeEncoder(file_, *architecture)) {
      return *std::move(encoder);
    }
    std::vector<std::string> known;
    for (const LlamaFamily& family : LlamaFamilies()) {
      known.emplace_back(family.architecture);
      const bool is_bare = *architecture == BareArchitecture(family);
      if (*architecture != family.architecture && !is_bare) continue;
      STOWAGE_ASSIGN_OR_RETURN(LlamaConfig config, Llama(family));
      STOWAGE_ASSIGN_OR_RETURN(std::string dropouts,
                               Dropouts({"attention_dropout", "embd_pdrop",
                                         "resid_pdrop", "hidden_dropout"},
                                        0));
      return PublishedModel{.family = std::string(family.name),
                            .config = std::move(config),
                            .is_bare = is_bare,
                            .dropouts = std::move(dropouts)};
    }
    known.emplace_back("GPT2LMHeadModel");
    if (*architecture == "GPT2LMHeadModel") {
      STOWAGE_ASSIGN_OR_RETURN(const GptConfig config, Gpt());
      STOWAGE_ASSIGN_OR_RETURN(
          std::string dropouts,
          Dropouts({"attn_pdrop", "embd_pdrop", "resid_pdrop"}, 0.1));
      return PublishedModel{
          .family = "gpt2", .config = config, .dropouts = std::move(dropouts)};
    }
    return Unsupported(
        StrCat("the architecture ", Quoted(*architecture),
               "; those that are read are ", Listed(known), ", and with ",
               "ForSequenceClassification, Model, ForMaskedLM or "
               "ForPreTraining behind it ",
               Listed(EncoderArchitectures())));
  }

 private:
  // " (quant_method gptq, bits 4)", of the given settings.
  std::string QuantizationSettings() const {
    std::string settings;
    for (const std::string_view name :
         {"quant_method", "bits", "group_size", "desc_act", "zero_point",
          "version", "load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type",
          "bnb_4bit_use_double_quant"}) {
      const auto found =
          config_.values().find(StrCat("quantization_config.", name));
      if (found == config_.values().end()) continue;
      settings += StrCat(settings.empty() ? " (" : ", ", name, " ",
                         TextOf(found->second));
    }
    return settings.empty() ? settings : settings + ")";
  }

  // The names whose values are not 0; missing ones default to `otherwise`.
  Result<std::string> Dropouts(std::initializer_list<std::string_view> names,
                               double otherwise) const {
    std::string all;
    for (const std::string_view name : names) {
      STOWAGE_ASSIGN_OR_RETURN(const double rate,
                               RealOr(std::string(name), otherwise));
      if (rate == 0) continue;
      all += StrCat(all.empty() ? "" : ", ", name, " ", rate);
    }
    return all;
  }

  Result<LlamaConfig> Llama(const LlamaFamily& family) const {
    LlamaConfig config = family.traits;
    STOWAGE_RETURN_IF_ERROR(FindActivation(family, &config));
    STOWAGE_ASSIGN_OR_RETURN(config.layers, Size("num_hidden_layers"));
    STOWAGE_RETURN_IF_ERROR(CheckLayers(config.layers));
    STOWAGE_ASSIGN_OR_RETURN(config.heads, Size("num_attention_heads"));
    STOWAGE_ASSIGN_OR_RETURN(config.kv_heads,
                             SizeOr("num_key_value_heads", config.heads));
    STOWAGE_ASSIGN_OR_RETURN(config.width, Size("hidden_size"));
    STOWAGE_ASSIGN_OR_RETURN(config.hidden, Size("intermediate_size"));
    STOWAGE_ASSIGN_OR_RETURN(config.vocabulary, Size("vocab_size"));
    STOWAGE_ASSIGN_OR_RETURN(config.max_seq, Size("max_position_embeddings"));
    STOWAGE_ASSIGN_OR_RETURN(
        config.head_size,
        SizeOr("head_dim",
               config.head_size > 0
                   ? config.head_size
                   : std::max<int64_t>(1, config.width / config.heads)));
    STOWAGE_RETURN_IF_ERROR(CheckHeads(config));
    STOWAGE_ASSIGN_OR_RETURN(config.eps, RealOr(family.eps, config.eps));
    STOWAGE_ASSIGN_OR_RETURN(config.tied_head,
                             BoolOr("tie_word_embeddings", config.tied_head));
    if (family.has_attention_bias) {
      STOWAGE_ASSIGN_OR_RETURN(config.out_bias,
                               BoolOr("attention_bias", config.out_bias));
      config.qkv_bias = config.out_bias;
    }
    if (family.has_mlp_bias) {
      STOWAGE_ASSIGN_OR_RETURN(config.mlp_bias, BoolOr("mlp_bias", false));
    }
    STOWAGE_RETURN_IF_ERROR(FindExperts(family, &config));
    STOWAGE_RETURN_IF_ERROR(FindLayers(family, &config));
    STOWAGE_RETURN_IF_ERROR(ConfigRope(file_).Find(family, &config));
    STOWAGE_RETURN_IF_ERROR(FindScales(family, &config));
    return config;
  }

  Status FindExperts(const LlamaFamily& family, LlamaConfig* config) const {
    if (!family.has_experts) return {};
    for (const std::string_view name : family.refused) {
      STOWAGE_RETURN_IF_ERROR(MustBeUnset(name));
    }
    // It enables the routers' auxiliary loss.
    STOWAGE_RETURN_IF_ERROR(MustBeUnset("output_router_logits"));
    ExpertsOptions& experts = config->experts;
    // transformers 5 writes either name.
    STOWAGE_ASSIGN_OR_RETURN(
        experts.count,
        Size(config_.Has("num_local_experts") ? "num_local_experts"
                                              : "num_experts"));
    STOWAGE_ASSIGN_OR_RETURN(experts.per_token, Size("num_experts_per_tok"));
    STOWAGE_ASSIGN_OR_RETURN(experts.hidden,
                             Size(std::string(family.expert_hidden)));
    if (family.has_shared_expert) {
      STOWAGE_ASSIGN_OR_RETURN(experts.shared_hidden,
                               Size("shared_expert_intermediate_size"));
      STOWAGE_RETURN_IF_ERROR(MustBe("qkv_bias", true));
    }
    if (family.may_normalize) {
      // transformers' default is false.
      STOWAGE_ASSIGN_OR_RETURN(experts.normalized,
                               BoolOr("norm_topk_prob", false));
    }
    return {};
  }

  // Checks that a setting is absent, null, false or 0.
  Status MustBeUnset(std::string_view name) const {
    if (!config_.Has(name) && !config_.HasBelow(name)) return {};
    const auto flag = config_.Bool(name);
    if (flag.ok() && !*flag) return {};
    const auto number = config_.Real(name);
    if (number.ok() && *number == 0) return {};
    return Unsupported(StrCat(
        "a ", Quoted(name), " of ",
        flag.ok()
            ? std::string("true")
            : (number.ok() ? StrCat(*number) : std::string("another kind")),
        ", which no model here knows"));
  }

  // Sets the layers that have experts.
  Result<std::vector<bool>> ExpertLayers(const LlamaFamily& family,
                                         int64_t layers) const {
    std::vector<bool> has(static_cast<size_t>(layers), true);
    if (!family.has_experts || family.expert_hidden == "intermediate_size") {
      return has;
    }
    STOWAGE_ASSIGN_OR_RETURN(const int64_t step,
                             SizeOr("decoder_sparse_step", 1));
    for (int64_t i = 0; i < layers; ++i) {
      has[static_cast<size_t>(i)] = (i + 1) % step == 0;
    }
    for (int64_t i = 0; config_.Has(StrCat("mlp_only_layers.", i)); ++i) {
      const auto layer = config_.Int(StrCat("mlp_only_layers.", i));
      if (!layer.ok()) return In(layer.error());
      if (*layer >= 0 && *layer < layers)
        has[static_cast<size_t>(*layer)] = false;
    }
    return has;
  }

  // null: no cap; absent: the family's.
  Result<double> Cap(const char* name, double otherwise) const {
    const auto found = config_.values().find(name);
    if (found != config_.values().end() && !config_.Has(name)) return 0.0;
    STOWAGE_ASSIGN_OR_RETURN(const double cap, RealOr(name, otherwise));
    if (cap != 0) STOWAGE_RETURN_IF_ERROR(CheckPositive(Quoted(name), cap));
    return cap;
  }

  Status FindScales(const LlamaFamily& family, LlamaConfig* config) const {
    if (family.scales_embedding) {
      config->embedding_scale = std::sqrt(static_cast<double>(config->width));
    }
    if (family.query_scalar > 0) {
      const char* const name = "query_pre_attn_scalar";
      STOWAGE_ASSIGN_OR_RETURN(const double scalar,
                               RealOr(name, family.query_scalar));
      STOWAGE_RETURN_IF_ERROR(CheckPositive(Quoted(name), scalar));
      config->attention_scale = 1 / std::sqrt(scalar);
      STOWAGE_RETURN_IF_ERROR(MustBe("use_bidirectional_attention", false));
    }
    if (family.has_multipliers) {
      double divisor = 1;
      config->attention_scale = 1;
      for (const auto& [name, scale] :
           {std::pair("embedding_multiplier", &config->embedding_scale),
            std::pair("attention_multiplier", &config->attention_scale),
            std::pair("residual_multiplier", &config->residual_scale),
            std::pair("logits_scaling", &divisor)}) {
        STOWAGE_ASSIGN_OR_RETURN(*scale, RealOr(name, 1));
        STOWAGE_RETURN_IF_ERROR(CheckPositive(Quoted(name), *scale));
      }
      config->logit_scale = 1 / divisor;
    }
    if (family.is_perhaps_parallel) {
      STOWAGE_ASSIGN_OR_RETURN(
          config->parallel, BoolOr("use_parallel_residual", config->parallel));
    }
    if (family.has_caps) {
      const char* const name = "attn_logit_softcapping";
      const double otherwise = config->attention_cap;
      STOWAGE_ASSIGN_OR_RETURN(config->attention_cap, Cap(name, otherwise));
      // Gemma 3's configs have the key, but transformers' model has no such cap.
      if (otherwise == 0 && config->attention_cap != 0) {
        return Unsupported(StrCat("an ", Quoted(name), " of ",
                                  config->attention_cap, ", which ",
                                  family.architecture, " does not follow"));
      }
      STOWAGE_ASSIGN_OR_RETURN(
          config->logit_cap, Cap("final_logit_softcapping", config->logit_cap));
    }
    return {};
  }

  Status FindActivation(const LlamaFamily& family, LlamaConfig* config) const {
    if (!config_.Has(family.activation)) return {};
    const auto name = config_.Text(family.activation);
    if (!name.ok()) return In(name.error());
    constexpr std::pair<std::string_view, GluActivation> kKnown[] = {
        {"silu", GluActivation::kSilu},
        {"swish", GluActivation::kSilu},
        {"gelu", GluActivation::kGeluErf},
        {"gelu_new", GluActivation::kGeluTanh},
        {"gelu_fast", GluActivation::kGeluTanh},
        {"gelu_pytorch_tanh", GluActivation::kGeluTanh}};
    std::vector<std::string> known;
    for (const auto& [text, activation] : kKnown) {
      known.emplace_back(text);
      if (*name != text) continue;
      config->activation = activation;
      return {};
    }
    return Unsupported(StrCat("a ", Quoted(family.activation), " of ",
                              Quoted(*name), "; those that are known are ",
                              Listed(known)));
  }

  // Sets which layers have rope.
  Result<std::vector<bool>> TurningLayers(const LlamaFamily& family,
                                          int64_t layers) const {
    std::vector<bool> turning(static_cast<size_t>(layers), true);
    if (family.rope_period == 0) return turning;
    STOWAGE_ASSIGN_OR_RETURN(
        const int64_t period,
        SizeOr("no_rope_layer_interval", family.rope_period));
    for (int64_t i = 0; i < layers; ++i) {
      bool turns = (i + 1) % period != 0;
      if (config_.HasBelow("no_rope_layers")) {
        const auto has = config_.Int(StrCat("no_rope_layers.", i));
        if (!has.ok()) return In(has.error());
        turns = *has != 0;
      }
      turning[static_cast<size_t>(i)] = turns;
    }
    return turning;
  }

  // Sets which layers have the window, if there is one.
  Result<std::vector<bool>> WindowedLayers(
      const LlamaFamily& family, const std::vector<bool>& turning) const {
    const std::vector<bool> none(turning.size(), false);
    if (family.windows == WindowRule::kNone) return none;
    if (config_.HasBelow("layer_types")) {
      return LayersOfTypes(family, turning.size());
    }
    int64_t first = 0, period = 0;
    if (family.windows == WindowRule::kPattern) {
      STOWAGE_ASSIGN_OR_RETURN(period,
                               SizeOr("sliding_window_pattern", family.period));
    } else if (family.windows != WindowRule::kAll) {
      STOWAGE_ASSIGN_OR_RETURN(const bool used,
                               BoolOr("use_sliding_window", false));
      if (!used) return none;
    }
    if (family.windows == WindowRule::kFromLayer) {
      const auto full = ValueOr<int64_t>(config_.Int("max_window_layers"), 28);
      if (!full.ok()) return In(full.error());
      first = *full;
    }
    std::vector<bool> windowed;
    for (int64_t i = 0; i < std::ssize(turning); ++i) {
      const bool turns = turning[static_cast<size_t>(i)];
      windowed.push_back(i >= first && (period == 0 || (i + 1) % period != 0) &&
                         !(family.windows == WindowRule::kUnturned && turns));
    }
    return windowed;
  }

  Result<std::vector<bool>> LayersOfTypes(const LlamaFamily& family,
                                          size_t layers) const {
    if (!family.has_layer_types) {
      return Unsupported(StrCat("\"layer_types\", which ", family.architecture,
                                " does not follow"));
    }
    std::vector<bool> windowed;
    for (size_t i = 0; i < layers; ++i) {
      const auto type = config_.Text(StrCat("layer_types.", i));
      if (!type.ok()) return In(type.error());
      windowed.push_back(*type == "sliding_attention");
      if (windowed.back() || *type == "full_attention") continue;
      return Unsupported(StrCat("a layer of type ", Quoted(*type),
                                "; here layers are of full_attention or "
                                "sliding_attention"));
    }
    if (std::ranges::count(windowed, true) == 0) return windowed;
    if (family.windows == WindowRule::kFromLayer) {
      STOWAGE_ASSIGN_OR_RETURN(const bool used,
                               BoolOr("use_sliding_window", false));
      if (!used) {
        return Unsupported(
            "layers of type \"sliding_attention\", and no "
            "\"use_sliding_window\" of true");
      }
    }
    if (DefaultWindow(family) == 0 && !config_.Has("sliding_window")) {
      return Unsupported(
          "layers of type \"sliding_attention\", and no \"sliding_window\"");
    }
    return windowed;
  }

  // The window of layers that have one, unless "sliding_window" says another.
  int64_t DefaultWindow(const LlamaFamily& family) const {
    const bool is_null = config_.values().contains("sliding_window");
    return family.default_window > 0 && !is_null ? family.default_window
                                                 : family.traits.window;
  }

  Status FindLayers(const LlamaFamily& family, LlamaConfig* config) const {
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<bool> turning,
                             TurningLayers(family, config->layers));
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<bool> windowed,
                             WindowedLayers(family, turning));
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<bool> expert,
                             ExpertLayers(family, config->layers));
    const auto count = std::ranges::count(windowed, true);
    config->window = count > 0 ? DefaultWindow(family) : 0;
    if (count > 0 && config_.Has("sliding_window")) {
      STOWAGE_ASSIGN_OR_RETURN(config->window,
                               SizeOr("sliding_window", config->window));
    }
    const bool has_window = config->window > 0;
    const bool all_windowed =
        has_window ? count == config->layers : config->window_rope_base == 0;
    if (all_windowed && std::ranges::count(turning, false) == 0 &&
        std::ranges::count(expert, false) == 0) {
      return {};
    }
    for (size_t i = 0; i < turning.size(); ++i) {
      config->layer_kinds.push_back({.has_window = all_windowed || windowed[i],
                                     .turns = turning[i],
                                     .has_experts = expert[i]});
    }
    return {};
  }

  Result<GptConfig> Gpt() const {
    GptConfig config{.name = "gpt2"};
    STOWAGE_RETURN_IF_ERROR(OneOf("activation_function", "gelu_new",
                                  {"gelu_new", "gelu_pytorch_tanh"}));
    STOWAGE_ASSIGN_OR_RETURN(config.tied_head,
                             BoolOr("tie_word_embeddings", true));
    STOWAGE_RETURN_IF_ERROR(MustBe("scale_attn_weights", true));
    STOWAGE_RETURN_IF_ERROR(MustBe("scale_attn_by_inverse_layer_idx", false));
    STOWAGE_RETURN_IF_ERROR(MustBe("add_cross_attention", false));
    STOWAGE_ASSIGN_OR_RETURN(config.layers, Size("n_layer"));
    STOWAGE_RETURN_IF_ERROR(CheckLayers(config.layers));
    STOWAGE_ASSIGN_OR_RETURN(config.heads, Size("n_head"));
    STOWAGE_ASSIGN_OR_RETURN(config.width, Size("n_embd"));
    STOWAGE_ASSIGN_OR_RETURN(config.vocabulary, Size("vocab_size"));
    STOWAGE_ASSIGN_OR_RETURN(config.max_seq, Size("n_positions"));
    STOWAGE_ASSIGN_OR_RETURN(const double eps,
                             RealOr("layer_norm_epsilon", 1e-5));
    if (eps != 1e-5) {
      return Unsupported(
          StrCat("a \"layer_norm_epsilon\" of ", eps, "; here it is 1e-05"));
    }
    STOWAGE_ASSIGN_OR_RETURN(const int64_t inner,
                             SizeOr("n_inner", 4 * config.width));
    if (inner != 4 * config.width) {
      return Unsupported(StrCat("an \"n_inner\" of ", inner,
                                "; here it is four times \"n_embd\", ",
                                4 * config.width));
    }
    return config;
  }
};

}  // namespace

std::string PathOfRope(const JsonValues& config) {
  if (config.HasBelow("rope_scaling")) return "rope_scaling.";
  if (config.HasBelow("rope_parameters.full_attention")) {
    return "rope_parameters.full_attention.";
  }
  return "rope_parameters.";
}

Result<PublishedModel> DescribeModel(const WeightsFile& file) {
  if (file.gguf() != nullptr) return DescribeByGguf(file);
  if (file.config() != nullptr) return JsonDescription(file).Describe();
  return file.Fail(
      "has no config.json beside it, which says what model it is of; put it "
      "there");
}

}  // namespace stowage
