#include "nn/llama.h"

#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/experts.h"
#include "nn/kv_cache.h"
#include "nn/layers.h"
#include "nn/model_options.h"
#include "nn/model_parts.h"
#include "nn/rope_scaling.h"

namespace stowage {

int64_t HeadSize(const LlamaConfig& config) {
  return config.head_size > 0 ? config.head_size : config.width / config.heads;
}

int64_t RopeDims(const LlamaConfig& config) {
  return config.rope_dims > 0 ? config.rope_dims : HeadSize(config);
}

LlamaLayer LayerKindOf(const LlamaConfig& config, int64_t i) {
  return config.layer_kinds.empty()
             ? LlamaLayer{}
             : config.layer_kinds[static_cast<size_t>(i)];
}

namespace {

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
  if (config.rope_dims < 0 || config.rope_dims % 2 != 0 ||
      config.rope_dims > HeadSize(config)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", config.name, " turns ", config.rope_dims,
                        " elements of heads of ", HeadSize(config),
                        "; expected an even number of them, or 0 for all")};
  }
  if (!config.layer_kinds.empty() &&
      std::ssize(config.layer_kinds) != config.layers) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", config.name, " has kinds of ",
                        config.layer_kinds.size(), " layers, and ",
                        config.layers, " layers; expected one of each")};
  }
  if (config.qkv == QkvLayers::kHeadByHead && config.kv_heads != config.heads) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", config.name, " has ", config.heads,
                        " heads and ", config.kv_heads,
                        " kv_heads, which stand head by head; these must be "
                        "equal")};
  }
  const ExpertsOptions& experts = config.experts;
  if (experts.count > 0) {
    STOWAGE_RETURN_IF_ERROR(
        CheckModelSizes(config.name, {{"experts", experts.count},
                                      {"experts_per_token", experts.per_token},
                                      {"expert_hidden", experts.hidden}}));
    if (experts.per_token > experts.count) {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[model] ", config.name, " gives a token ",
                          experts.per_token, " of ", experts.count,
                          " experts; expected 1 to ", experts.count)};
    }
  }
  const int64_t dims = RopeDims(config);
  STOWAGE_RETURN_IF_ERROR(
      CheckRopeFactors(config.name, dims, config.rope_factors));
  return CheckRopeFactors(config.name, dims, config.long_rope_factors);
}

Value Scaled(Value x, double scale) {
  return scale == 1 ? x : MulScalar(x, scale);
}

Value Activated(Value x, GluActivation activation) {
  switch (activation) {
    case GluActivation::kSilu:
      return Silu(x);
    case GluActivation::kGeluTanh:
      return GeluTanh(x);
    case GluActivation::kGeluErf:
      return GeluErf(x);
  }
  return Value();
}

// Cosines and sines of a layer's positions, or the base by which the op turns.
struct Turns {
  double base = 0;
  RopeTable table = {};  // none where there are no factors
};

class Blocks {
 public:
  // `cache` is null where there is none.
  Blocks(GraphBuilder& g, const LlamaConfig& config,
         const ModelOptions& options, Value segments, Dropouts* dropouts,
         KvCache* cache)
      : config_(config),
        segments_(segments),
        cache_(cache),
        residual_init_(Init::Normal(
            0.02 / std::sqrt(2.0 * static_cast<double>(config.layers)))),
        dropouts_(*dropouts),
        turns_{config.rope_base},
        window_turns_{config.window_rope_base} {
    const int64_t positions = options.cache.value_or(*options.seq);
    const bool is_long =
        !config.long_rope_factors.empty() && positions > config.long_rope_from;
    const std::vector<double>& factors =
        is_long ? config.long_rope_factors : config.rope_factors;
    if (factors.empty()) return;
    turns_.table = ScaledRopeTable(g, positions, RopeDims(config),
                                   config.rope_base, factors, config.rope_gain);
    if (cache) turns_.table = RowsOf(turns_.table, cache->token_positions());
  }

  Value Apply(Value x, int64_t i) {
    if (!x.ok()) return x;
    GraphBuilder& g = *x.builder();
    layer_ = LayerKindOf(config_, i);
    layer_name_ = StrCat(config_.names.layers, i);
    const std::string attention = Named(config_.names.attention);
    const LlamaNorms& norms = config_.norms;
    const Value attended =
        Added(Attention(NormOrNone(x, norms.before_attention), attention),
              norms.after_attention);
    const Value h = g.Name(attention + ".residual", Add(x, attended));
    const Value wide =
        Added(Mlp(NormOrNone(config_.parallel ? x : h, norms.before_mlp)),
              norms.after_mlp);
    return g.Name(layer_name_, Add(h, wide));
  }

  Value Norm(Value x, const std::string& name) {
    if (config_.norms_have_mean) return LayerNorm(x, name, config_.eps);
    if (!config_.norms_add_one || !x.ok()) {
      return RmsNorm(x, name, config_.eps);
    }
    GraphBuilder& g = *x.builder();
    const Value weight =
        g.Param(name + ".weight", x.dtype(), {x.shape().back()}, Init::Zeros());
    return g.Name(name, stowage::RmsNorm(x, AddScalar(weight, 1), config_.eps));
  }

 private:
  // Of this layer.
  std::string Named(std::string_view part) const {
    return StrCat(layer_name_, ".", part);
  }

  Value NormOrNone(Value x, std::string_view norm) {
    return norm.empty() ? x : Norm(x, Named(norm));
  }

  // What a branch adds to the residual stream.
  Value Added(Value branch, std::string_view norm) {
    return Scaled(NormOrNone(dropouts_.Apply(branch), norm),
                  config_.residual_scale);
  }

  LinearOptions InnerLinear(bool bias) const {
    return {.bias = bias, .out_in = config_.out_in};
  }
  LinearOptions ResidualLinear(bool bias) const {
    return {.bias = bias, .init = residual_init_, .out_in = config_.out_in};
  }

  Value Mlp(Value x) {
    if (config_.experts.count > 0 && layer_.has_experts) {
      ExpertsOptions experts = config_.experts;
      experts.activation = config_.activation;
      experts.down_init = residual_init_;
      return Experts(x, Named(config_.names.experts), experts);
    }
    const std::string name = Named("mlp");
    if (config_.mlp != MlpLayers::kPlain) {
      return GatedMlp(
          x, name, config_.hidden,
          {.activation = config_.activation,
           .side_by_side = config_.mlp == MlpLayers::kGatedSideBySide,
           .down_init = residual_init_,
           .bias = config_.mlp_bias,
           .out_in = config_.out_in});
    }
    const Value wide = Linear(x, StrCat(name, ".", config_.names.up),
                              config_.hidden, InnerLinear(config_.mlp_bias));
    return Linear(Activated(wide, config_.activation),
                  StrCat(name, ".", config_.names.down), config_.width,
                  ResidualLinear(config_.mlp_bias));
  }

  struct Heads {
    Value q, k, v;  // (B, T, heads, D)
  };

  Value ByHead(Value x, int64_t heads, int64_t depth) {
    if (!x.ok()) return x;
    return Reshape(x, {x.dim(0), x.dim(1), heads, depth});
  }

  // One of the projections, (B, T, heads D), normalized if it has a norm of that name.
  Value NormedHeads(Value x, int64_t heads, const std::string& norm) {
    if (config_.qk_norm == QkNorm::kAllHeads) x = Norm(x, norm);
    x = ByHead(x, heads, HeadSize(config_));
    return config_.qk_norm == QkNorm::kEachHead ? Norm(x, norm) : x;
  }

  Heads Project(Value x, const std::string& name) {
    const int64_t depth = HeadSize(config_);
    const int64_t q = config_.heads * depth, k = config_.kv_heads * depth;
    const LinearOptions options = InnerLinear(config_.qkv_bias);
    std::vector<Value> parts;
    if (config_.qkv == QkvLayers::kSeparate) {
      parts = {Linear(x, name + ".q_proj", q, options),
               Linear(x, name + ".k_proj", k, options),
               Linear(x, name + ".v_proj", k, options)};
    } else {
      const Value all =
          Linear(x, StrCat(name, ".", config_.names.qkv), q + 2 * k, options);
      if (config_.qkv == QkvLayers::kHeadByHead) {
        parts = Split(ByHead(all, config_.heads, 3 * depth), -1,
                      {depth, depth, depth});
        return {parts[0], parts[1], parts[2]};
      }
      parts = Split(all, -1, {q, k, k});
    }
    return {NormedHeads(parts[0], config_.heads, name + ".q_norm"),
            NormedHeads(parts[1], config_.kv_heads, name + ".k_norm"),
            ByHead(parts[2], config_.kv_heads, depth)};
  }

  // q or k at its positions. Of packed texts these go on from one to the next: how far
  // positions are apart is all that attention sees.
  Value Turned(Value heads) {
    if (!layer_.turns) return heads;
    const bool of_window = layer_.has_window && window_turns_.base > 0;
    const Turns& turns = of_window ? window_turns_ : turns_;
    if (turns.table.cos.ok()) return Rope(heads, turns.table);
    const Value positions = cache_ ? cache_->token_positions() : Value();
    return Rope(heads, positions,
                {.base = turns.base, .dims = config_.rope_dims});
  }

  Value Attention(Value x, const std::string& name) {
    if (!x.ok()) return x;
    const Heads heads = Project(x, name);
    const AttentionOptions options = {
        .scale = config_.attention_scale,
        .causal = true,
        .window = layer_.has_window ? config_.window : 0,
        .segments = segments_,
        .softcap = config_.attention_cap};
    const Value q = Turned(heads.q), k = Turned(heads.k);
    const Value attended = cache_ ? cache_->Attend(q, k, heads.v, name, options)
                                  : stowage::Attention(q, k, heads.v, options);
    const Value joined = Reshape(
        attended, {x.dim(0), x.dim(1), config_.heads * HeadSize(config_)});
    return Linear(joined, StrCat(name, ".", config_.names.out), config_.width,
                  ResidualLinear(config_.out_bias));
  }

  const LlamaConfig& config_;
  const Value segments_;  // none where sequences are not packed
  KvCache* const cache_;
  const Init residual_init_;  // of what ends in the residual stream
  Dropouts& dropouts_;
  Turns turns_, window_turns_;
  LlamaLayer layer_;  // the one that is being built
  std::string layer_name_;
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
      Embedding(text.tokens, config.names.embedding, config.vocabulary,
                config.width, options.dtype);
  std::optional<KvCache> cache = DeclareKvCache(g, options);
  Value x = dropouts.Apply(Scaled(embedding.rows, config.embedding_scale));
  Blocks blocks(g, config, options, text.segments, &dropouts,
                cache ? &*cache : nullptr);
  for (int64_t i = 0; i < config.layers; ++i) x = blocks.Apply(x, i);
  x = blocks.Norm(x, std::string(config.names.norm));
  const Value head =
      config.tied_head
          ? embedding.table
          : g.Param(config.names.head, options.dtype,
                    {config.vocabulary, config.width}, Init::Normal(0.02));
  return FinishText(g, Scaled(x, config.logit_scale), head, text, purpose,
                    options, config.logit_cap);
}

int64_t LlamaParameterCount(const LlamaConfig& config) {
  const int64_t c = config.width, f = config.hidden;
  const int64_t q = HeadSize(config) * config.heads;
  const int64_t k = HeadSize(config) * config.kv_heads;
  const int64_t embeddings = (config.tied_head ? 1 : 2) * config.vocabulary * c;
  const int64_t norm = config.norms_have_mean ? 2 * c : c;
  const int64_t wide = config.mlp == MlpLayers::kPlain ? 1 : 2;
  int64_t mlps = config.layers * (wide + 1) * c * f;
  if (config.experts.count > 0) {
    mlps = 0;
    for (int64_t i = 0; i < config.layers; ++i) {
      mlps += LayerKindOf(config, i).has_experts
                  ? ExpertsParameterCount(config.experts, c)
                  : (wide + 1) * c * f;
    }
  }
  int64_t layer = 2 * c * q + 2 * c * k;
  const LlamaNorms& norms = config.norms;
  for (const std::string_view name :
       {norms.before_attention, norms.after_attention, norms.before_mlp,
        norms.after_mlp}) {
    if (!name.empty()) layer += norm;
  }
  if (config.qkv_bias) layer += q + 2 * k;
  if (config.out_bias) layer += c;
  if (config.mlp_bias) layer += wide * f + c;
  if (config.qk_norm == QkNorm::kEachHead) layer += 2 * HeadSize(config);
  if (config.qk_norm == QkNorm::kAllHeads) layer += q + k;
  return embeddings + config.layers * layer + mlps + norm;
}

}  // namespace stowage
