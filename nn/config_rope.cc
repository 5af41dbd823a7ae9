// What config.json says of a model's rope.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/json.h"
#include "nn/config_values.h"
#include "nn/llama_families.h"
#include "nn/model_description.h"
#include "nn/rope_scaling.h"

namespace stowage {
namespace {

class ConfigRope : public ConfigValues {
 public:
  using ConfigValues::ConfigValues;

  // Under "rope_parameters" in what transformers 5 writes, which prefers "rope_scaling".
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
  // Of layers with a window, which turn by a base of their own.
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

}  // namespace

std::string PathOfRope(const JsonValues& config) {
  if (config.HasBelow("rope_scaling")) return "rope_scaling.";
  if (config.HasBelow("rope_parameters.full_attention")) {
    return "rope_parameters.full_attention.";
  }
  return "rope_parameters.";
}

Status FindConfigRope(const WeightsFile& file, const LlamaFamily& family,
                      LlamaConfig* config) {
  return ConfigRope(file).Find(family, config);
}

}  // namespace stowage
