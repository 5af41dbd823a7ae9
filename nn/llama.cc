#include "nn/llama.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "math/rope.h"
#include "nn/kv_cache.h"
#include "nn/layers.h"
#include "nn/model_options.h"
#include "nn/model_parts.h"

namespace stowage {

std::vector<double> Llama3RopeFactors(int64_t dims, double base,
                                      const Llama3RopeScaling& scaling) {
  std::vector<double> factors;
  for (int64_t pair = 0; pair < dims / 2; ++pair) {
    // How many wavelengths there are in the texts that the model learned from first.
    const double waves =
        scaling.original_positions * math::RopeTurns(base, dims, pair);
    if (waves < scaling.low_frequency_factor) {
      factors.push_back(scaling.factor);
    } else if (waves > scaling.high_frequency_factor) {
      factors.push_back(1);
    } else {
      const double smooth =
          (waves - scaling.low_frequency_factor) /
          (scaling.high_frequency_factor - scaling.low_frequency_factor);
      factors.push_back(1 / ((1 - smooth) / scaling.factor + smooth));
    }
  }
  return factors;
}

namespace {

// Numbers of a scaling of rope, by their names.
using RopeNumbers = std::initializer_list<std::pair<std::string_view, double>>;

Status CheckPositive(std::string_view scaling, RopeNumbers numbers) {
  for (const auto& [name, number] : numbers) {
    if (std::isfinite(number) && number > 0) continue;
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] a ", scaling, " scaling of rope has a ", name,
                        " of ", number, "; expected a finite number above 0")};
  }
  return {};
}

}  // namespace

Status CheckLlama3Rope(const Llama3RopeScaling& scaling) {
  STOWAGE_RETURN_IF_ERROR(CheckPositive(
      "Llama 3",
      {{"factor", scaling.factor},
       {"low_freq_factor", scaling.low_frequency_factor},
       {"high_freq_factor", scaling.high_frequency_factor},
       {"number of original positions", scaling.original_positions}}));
  if (scaling.high_frequency_factor > scaling.low_frequency_factor) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[model] a Llama 3 scaling of rope has a "
             "high_freq_factor of ",
             scaling.high_frequency_factor, " and a low_freq_factor of ",
             scaling.low_frequency_factor,
             "; expected the first above the second")};
}

Status CheckYarn(const YarnRopeScaling& scaling) {
  return CheckPositive(
      "YaRN", {{"factor", scaling.factor},
               {"number of original positions", scaling.original_positions},
               {"beta_fast", scaling.fast_turns},
               {"beta_slow", scaling.slow_turns}});
}

std::vector<double> YarnRopeFactors(int64_t dims, double base,
                                    const YarnRopeScaling& scaling) {
  // The pair that turns so often in the positions that the model learned from first.
  const auto pair_of = [&](double turns) {
    return static_cast<double>(dims) *
           std::log(scaling.original_positions /
                    (turns * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  double low = pair_of(scaling.fast_turns), high = pair_of(scaling.slow_turns);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) high += 0.001;
  std::vector<double> factors;
  for (int64_t pair = 0; pair < dims / 2; ++pair) {
    const double slow =
        std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    factors.push_back(1 / (slow / scaling.factor + 1 - slow));
  }
  return factors;
}

double YarnGain(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

Status CheckRopeFactors(std::string_view model, int64_t dims,
                        std::span<const double> factors) {
  if (factors.empty()) return {};
  if (std::ssize(factors) != dims / 2) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", model, " has ", factors.size(),
                        " factors of rope for heads of ", dims,
                        " elements; expected one a pair, ", dims / 2)};
  }
  for (const double factor : factors) {
    if (std::isfinite(factor) && factor > 0) continue;
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", model, " has a factor of rope of ", factor,
                        "; expected finite numbers above 0")};
  }
  return {};
}

RopeTable ScaledRopeTable(GraphBuilder& g, int64_t positions, int64_t dims,
                          double base, std::span<const double> factors,
                          double gain, SourceLoc loc) {
  STOWAGE_CHECK(std::ssize(factors) == dims / 2);
  std::vector<float> cos, sin;
  for (int64_t position = 0; position < positions; ++position) {
    for (int64_t pair = 0; pair < dims / 2; ++pair) {
      const double turns = math::RopeTurns(base, dims, pair) /
                           factors[static_cast<size_t>(pair)];
      const double angle =
          math::RopeAngle(static_cast<int32_t>(position), turns);
      cos.push_back(static_cast<float>(gain * std::cos(angle)));
      sin.push_back(static_cast<float>(gain * std::sin(angle)));
    }
  }
  const Shape shape{positions, 1, dims / 2};
  const auto constant = [&](std::string_view name,
                            const std::vector<float>& numbers) {
    return g.Name(
        name,
        Constant(g, DType::kF32, shape, std::as_bytes(std::span(numbers)), loc),
        loc);
  };
  return {constant("rope.cos", cos), constant("rope.sin", sin)};
}

RopeTable RowsOf(const RopeTable& table, Value positions, SourceLoc loc) {
  return {Gather(table.cos, positions, loc), Gather(table.sin, positions, loc)};
}

Value Rope(Value x, const RopeTable& table, SourceLoc loc) {
  if (!x.ok()) return x;
  const int64_t dims = x.shape().back();
  const Value wide = Cast(x, DType::kF32, loc);
  const Value a = Slice(wide, -1, 0, dims / 2, 1, loc);
  const Value b = Slice(wide, -1, dims / 2, dims, 1, loc);
  const std::array<Value, 2> turned = {
      Sub(Mul(a, table.cos, loc), Mul(b, table.sin, loc), loc),
      Add(Mul(b, table.cos, loc), Mul(a, table.sin, loc), loc)};
  return Cast(Concat(turned, -1, loc), x.dtype(), loc);
}

namespace {

int64_t HeadSize(const LlamaConfig& config) {
  return config.head_size > 0 ? config.head_size : config.width / config.heads;
}

Status CheckLlamaConfig(const LlamaConfig& config) {
  STOWAGE_RETURN_IF_ERROR(
      CheckModelSizes(config.name, {{"layers", config.layers},
                                    {"heads", config.heads},
                                    {"kv_heads", config.kv_heads},
                                    {"width", config.width},
                                    {"hidden", config.hidden},
                                    {"vocabulary", config.vocabulary},
                                    {"max_seq", config.max_seq}}));
  if (config.head_size == 0 && config.width % (2 * config.heads) != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", config.name, " has ", config.heads,
                        " heads over a width of ", config.width,
                        "; each must have an even number of elements, for "
                        "they turn in pairs")};
  }
  if (config.head_size < 0 || config.head_size % 2 != 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[model] ", config.name, " has heads of ", config.head_size,
               " elements; expected an even number, for they turn in "
               "pairs")};
  }
  if (config.heads % config.kv_heads != 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[model] ", config.name, " has ", config.heads, " heads and ",
               config.kv_heads, " kv_heads; these must divide the heads")};
  }
  if (config.window < 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", config.name, " has a window of ",
                        config.window, "; expected 0 or more")};
  }
  if (!std::isfinite(config.rope_gain) || config.rope_gain <= 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[model] ", config.name, " has a gain of rope of ",
               config.rope_gain, "; expected a finite number above 0")};
  }
  return CheckRopeFactors(config.name, HeadSize(config), config.rope_factors);
}

class Blocks {
 public:
  // `cache` is null where there is none.
  Blocks(const LlamaConfig& config, const RopeTable& turns, Value segments,
         Dropouts* dropouts, KvCache* cache)
      : config_(config),
        turns_(turns),
        segments_(segments),
        cache_(cache),
        residual_init_(Init::Normal(
            0.02 / std::sqrt(2.0 * static_cast<double>(config.layers)))),
        dropouts_(*dropouts) {}

  Value Apply(Value x, const std::string& name) {
    if (!x.ok()) return x;
    GraphBuilder& g = *x.builder();
    const Value attended =
        Attention(RmsNorm(x, name + ".input_layernorm", config_.eps),
                  name + ".self_attn");
    const Value h = g.Name(name + ".self_attn.residual", Add(x, attended));
    const Value wide =
        SwiGlu(RmsNorm(h, name + ".post_attention_layernorm", config_.eps),
               name + ".mlp", config_.hidden,
               {.down_init = residual_init_,
                .bias = config_.mlp_bias,
                .out_in = config_.out_in});
    return g.Name(name, Add(h, dropouts_.Apply(wide)));
  }

 private:
  // One of q, k and v: (B, T, heads, D).
  Value Heads(Value x, const std::string& name, int64_t heads) {
    const int64_t depth = HeadSize(config_);
    const Value y =
        Linear(x, name, heads * depth,
               {.bias = config_.qkv_bias, .out_in = config_.out_in});
    return Reshape(y, {x.dim(0), x.dim(1), heads, depth});
  }

  // q or k at its positions. Of packed texts these go on from one to the next: how far
  // positions are apart is all that attention sees.
  Value Turned(Value heads, const std::string& norm) {
    if (config_.qk_norm) heads = RmsNorm(heads, norm, config_.eps);
    if (!config_.rope_factors.empty()) return Rope(heads, turns_);
    const Value positions = cache_ ? cache_->token_positions() : Value();
    return Rope(heads, positions, {.base = config_.rope_base});
  }

  // Of what has turned.
  Value Attend(Value q, Value k, Value v, const std::string& name) {
    if (cache_) return cache_->Attend(q, k, v, name, config_.window);
    return stowage::Attention(
        q, k, v,
        {.causal = true, .window = config_.window, .segments = segments_});
  }

  Value Attention(Value x, const std::string& name) {
    if (!x.ok()) return x;
    const Value q = Heads(x, name + ".q_proj", config_.heads);
    const Value k = Heads(x, name + ".k_proj", config_.kv_heads);
    const Value v = Heads(x, name + ".v_proj", config_.kv_heads);
    const Value attended = Attend(Turned(q, name + ".q_norm"),
                                  Turned(k, name + ".k_norm"), v, name);
    const Value joined = Reshape(
        attended, {x.dim(0), x.dim(1), config_.heads * HeadSize(config_)});
    const Value y = Linear(joined, name + ".o_proj", config_.width,
                           {.bias = config_.out_bias,
                            .init = residual_init_,
                            .out_in = config_.out_in});
    return dropouts_.Apply(y);
  }

  const LlamaConfig& config_;
  const RopeTable turns_;  // none where there are no rope_factors
  const Value segments_;   // none where sequences are not packed
  KvCache* const cache_;
  const Init residual_init_;  // of what ends in the residual stream
  Dropouts& dropouts_;
};

}  // namespace

Result<Graph> BuildLlama(const LlamaConfig& config, ModelPurpose purpose,
                         const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckLlamaConfig(config));
  STOWAGE_RETURN_IF_ERROR(
      CheckTextModelOptions(config.name, config.max_seq, purpose, options));
  GraphBuilder g(config.name);
  const Text text = DeclareText(g, purpose, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const EmbeddingResults embedding =
      Embedding(text.tokens, "model.embed_tokens.weight", config.vocabulary,
                config.width, options.dtype);
  std::optional<KvCache> cache = DeclareKvCache(g, options);
  Value x = dropouts.Apply(embedding.rows);
  RopeTable turns;
  if (!config.rope_factors.empty()) {
    turns = ScaledRopeTable(g, options.cache.value_or(*options.seq),
                            HeadSize(config), config.rope_base,
                            config.rope_factors, config.rope_gain);
    if (cache) turns = RowsOf(turns, cache->token_positions());
  }
  Blocks blocks(config, turns, text.segments, &dropouts,
                cache ? &*cache : nullptr);
  for (int64_t i = 0; i < config.layers; ++i) {
    x = blocks.Apply(x, StrCat("model.layers.", i));
  }
  x = RmsNorm(x, "model.norm", config.eps);
  const Value head =
      config.tied_head
          ? embedding.table
          : g.Param("lm_head.weight", options.dtype,
                    {config.vocabulary, config.width}, Init::Normal(0.02));
  return FinishText(g, x, head, text, purpose, options);
}

int64_t LlamaParameterCount(const LlamaConfig& config) {
  const int64_t c = config.width, f = config.hidden;
  const int64_t q = HeadSize(config) * config.heads;
  const int64_t k = HeadSize(config) * config.kv_heads;
  const int64_t embeddings = (config.tied_head ? 1 : 2) * config.vocabulary * c;
  int64_t layer = 2 * c * q + 2 * c * k + 3 * c * f + 2 * c;
  if (config.qkv_bias) layer += q + 2 * k;
  if (config.out_bias) layer += c;
  if (config.mlp_bias) layer += 2 * f + c;
  if (config.qk_norm) layer += 2 * HeadSize(config);
  return embeddings + config.layers * layer + c;
}

}  // namespace stowage
