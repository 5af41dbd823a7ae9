#include "nn/llama.h"

#include <algorithm>
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

// The rope of a layer: a table of cosines and sines, or the base for the op.
struct Turns {
  double base = 0;
  RopeTable table = {};  // none where there are no factors
};

class Blocks {
 public:
  // `cache` may be null.
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
  // The settings of this layer.
  std::string Named(std::string_view part) const {
    return StrCat(layer_name_, ".", part);
  }

  Value NormOrNone(Value x, std::string_view norm) {
    return norm.empty() ? x : Norm(x, Named(norm));
  }

  // The output of a branch, as added to the residual stream.
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

  // A projection, (B, T, heads D), normalized if the config has the norm.
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

  // Applies rope to q or k. Positions continue over packed texts, since attention depends on
  // differences of positions only.
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
  EmbeddedTexts embedded;
  Text text;
  if (options.embedding) {
    embedded = DeclareEmbeddedTexts(g, options);
    text.tokens = embedded.tokens;
  } else {
    text = DeclareText(g, purpose, options);
  }
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
  if (options.embedding) {
    return FinishEmbedding(g, x, embedded, purpose, options);
  }
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

LlamaConfig Gemma2() {
  LlamaConfig config;
  config.eps = 1e-6;
  config.head_size = 256;
  config.tied_head = true;
  config.norms = {.after_attention = "post_attention_layernorm",
                  .before_mlp = "pre_feedforward_layernorm",
                  .after_mlp = "post_feedforward_layernorm"};
  config.norms_add_one = true;
  config.activation = GluActivation::kGeluTanh;
  config.attention_cap = 50;
  config.logit_cap = 30;
  config.window = 4096;
  return config;
}

LlamaConfig Gemma3() {
  LlamaConfig config = Gemma2();
  config.qk_norm = QkNorm::kEachHead;
  config.attention_cap = config.logit_cap = 0;
  config.rope_base = 1e6;
  config.window_rope_base = 1e4;
  return config;
}

LlamaConfig SmolLm3() {
  LlamaConfig config;
  config.eps = 1e-6;
  config.tied_head = true;
  config.rope_base = 2e6;
  return config;
}

LlamaConfig Olmo2() {
  LlamaConfig config;
  config.norms = {.before_attention = "",
                  .after_attention = "post_attention_layernorm",
                  .before_mlp = "",
                  .after_mlp = "post_feedforward_layernorm"};
  config.qk_norm = QkNorm::kAllHeads;
  return config;
}

LlamaConfig GptNeoX() {
  LlamaConfig config;
  config.names = {.embedding = "gpt_neox.embed_in.weight",
                  .layers = "gpt_neox.layers.",
                  .norm = "gpt_neox.final_layer_norm",
                  .head = "embed_out.weight",
                  .attention = "attention",
                  .qkv = "query_key_value",
                  .out = "dense",
                  .up = "dense_h_to_4h",
                  .down = "dense_4h_to_h"};
  config.norms_have_mean = true;
  config.qkv_bias = config.out_bias = config.mlp_bias = true;
  config.qkv = QkvLayers::kHeadByHead;
  config.mlp = MlpLayers::kPlain;
  config.activation = GluActivation::kGeluErf;
  config.parallel = true;
  return config;
}

LlamaConfig Mixtral() {
  LlamaConfig config;
  config.names.experts = "block_sparse_moe";
  config.experts = {.gate = "w1", .up = "w3", .down = "w2"};
  return config;
}

LlamaConfig Qwen2Moe() {
  LlamaConfig config = Qwen2();
  config.experts.normalized = false;
  return config;
}

LlamaConfig Qwen3Moe() {
  LlamaConfig config;
  config.eps = 1e-6;
  config.qk_norm = QkNorm::kEachHead;
  return config;
}

LlamaConfig Olmoe() {
  LlamaConfig config;
  config.qk_norm = QkNorm::kAllHeads;
  config.experts.normalized = false;
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
       .has_mlp_bias = true,
       .gguf_out_bias = true,
       .gguf_mlp_bias = true},
      {.name = "mistral",
       .gguf = "llama",
       .architecture = "MistralForCausalLM",
       .traits = Plain(),
       .paired_in_gguf = true,
       .windows = WindowRule::kAll,
       .default_window = 4096},
      {.name = "qwen2",
       .gguf = "qwen2",
       .architecture = "Qwen2ForCausalLM",
       .traits = Qwen2(),
       .windows = WindowRule::kFromLayer,
       .default_window = 4096},
      {.name = "qwen3",
       .gguf = "qwen3",
       .architecture = "Qwen3ForCausalLM",
       .traits = Qwen3(),
       .has_attention_bias = true,
       .windows = WindowRule::kFromLayer,
       .default_window = 4096},
      {.name = "phi3",
       .gguf = "phi3",
       .architecture = "Phi3ForCausalLM",
       .traits = Phi3(),
       .turns_in_part = true,
       .windows = WindowRule::kAll,
       .has_layer_types = false,
       .gguf_keys = {"attention.sliding_window", "rope.scaling.attn_factor"}},
      {.name = "gemma2",
       .gguf = "gemma2",
       .architecture = "Gemma2ForCausalLM",
       .traits = Gemma2(),
       .has_attention_bias = true,
       .query_scalar = 256,
       .has_caps = true,
       .scales_embedding = true,
       .windows = WindowRule::kPattern,
       .period = 2,
       .activation = "hidden_activation",
       .gguf_keys = {"attention.sliding_window", "attn_logit_softcapping",
                     "final_logit_softcapping"},
       .gguf_window = 4096,
       .gguf_wide_layers = 46},
      {.name = "gemma3",
       .gguf = "gemma3",
       .architecture = "Gemma3ForCausalLM",
       .traits = Gemma3(),
       .has_attention_bias = true,
       .query_scalar = 256,
       .has_caps = true,
       .scales_embedding = true,
       .windows = WindowRule::kPattern,
       .period = 6,
       .activation = "hidden_activation",
       .gguf_keys = {"attention.sliding_window", "rope.freq_base_swa",
                     "final_logit_softcapping"},
       .gguf_wide_layers = 62},
      {.name = "smollm3",
       .gguf = "smollm3",
       .architecture = "SmolLM3ForCausalLM",
       .traits = SmolLm3(),
       .paired_in_gguf = true,
       .has_attention_bias = true,
       .has_mlp_bias = true,
       .windows = WindowRule::kUnturned,
       .rope_period = 4},
      {.name = "olmo2",
       .gguf = "olmo2",
       .architecture = "Olmo2ForCausalLM",
       .traits = Olmo2(),
       .has_attention_bias = true},
      {.name = "granite",
       .gguf = "granite",
       .architecture = "GraniteForCausalLM",
       .traits = Plain(),
       .paired_in_gguf = true,
       .has_attention_bias = true,
       .has_mlp_bias = true,
       .has_multipliers = true,
       .gguf_keys = {"attention.scale", "embedding_scale", "residual_scale",
                     "logit_scale"},
       .gguf_out_bias = true,
       .gguf_mlp_bias = true},
      {.name = "gptneox",
       .gguf = "gptneox",
       .architecture = "GPTNeoXForCausalLM",
       .traits = GptNeoX(),
       .has_attention_bias = true,
       .turns_in_part = true,
       .part_that_turns = 0.25,
       .is_perhaps_parallel = true,
       .eps = "layer_norm_eps",
       .rope_base = "rotary_emb_base",
       .rope_part = "rotary_pct",
       .gguf_keys = {"use_parallel_residual"},
       .gguf_out_bias = true,
       .gguf_mlp_bias = true},
      {.name = "mixtral",
       .gguf = "llama",
       .architecture = "MixtralForCausalLM",
       .traits = Mixtral(),
       .paired_in_gguf = true,
       .windows = WindowRule::kAll,
       .has_experts = true,
       .refused = {"router_jitter_noise"},
       .gguf_keys = {"expert_count", "expert_used_count"}},
      {.name = "qwen2moe",
       .gguf = "qwen2moe",
       .architecture = "Qwen2MoeForCausalLM",
       .traits = Qwen2Moe(),
       .has_experts = true,
       .expert_hidden = "moe_intermediate_size",
       .has_shared_expert = true,
       .may_normalize = true,
       .refused = {"use_sliding_window"},
       .gguf_keys = {"expert_count", "expert_used_count",
                     "expert_feed_forward_length",
                     "expert_shared_feed_forward_length"}},
      {.name = "qwen3moe",
       .gguf = "qwen3moe",
       .architecture = "Qwen3MoeForCausalLM",
       .traits = Qwen3Moe(),
       .has_attention_bias = true,
       .has_experts = true,
       .expert_hidden = "moe_intermediate_size",
       .may_normalize = true,
       .refused = {"use_sliding_window"},
       .gguf_keys = {"expert_count", "expert_used_count",
                     "expert_feed_forward_length"}},
      {.name = "olmoe",
       .gguf = "olmoe",
       .architecture = "OlmoeForCausalLM",
       .traits = Olmoe(),
       .has_attention_bias = true,
       .has_experts = true,
       .may_normalize = true,
       .refused = {"clip_qkv"},
       .gguf_keys = {"expert_count", "expert_used_count",
                     "expert_feed_forward_length"}},
  };
  for (LlamaFamily& family : families) {
    family.traits.name = family.name;
    family.traits.out_in = true;
  }
  return families;
}

}  // namespace

std::vector<LlamaLayer> LayerKindsOf(const LlamaFamily& family,
                                     const LlamaConfig& config) {
  const bool has_pattern = family.windows == WindowRule::kPattern;
  std::vector<LlamaLayer> kinds;
  if (!has_pattern && family.rope_period == 0) return kinds;
  for (int64_t i = 1; i <= config.layers; ++i) {
    LlamaLayer layer;
    if (has_pattern) {
      layer.has_window = config.window > 0 && i % family.period != 0;
    }
    if (family.rope_period > 0) layer.turns = i % family.rope_period != 0;
    kinds.push_back(layer);
  }
  return kinds;
}

double GgufAttentionScale(const LlamaFamily& family,
                          const LlamaConfig& config) {
  const int64_t divisor = config.layers == family.gguf_wide_layers
                              ? config.width / config.heads
                              : HeadSize(config);
  return 1 / std::sqrt(static_cast<double>(divisor));
}

std::span<const LlamaFamily> LlamaFamilies() {
  static const std::vector<LlamaFamily>& families =
      *new std::vector<LlamaFamily>(MakeFamilies());
  return families;
}

std::string BareArchitecture(const LlamaFamily& family) {
  constexpr std::string_view kHead = "ForCausalLM";
  STOWAGE_CHECK(family.architecture.ends_with(kHead));
  const size_t size = family.architecture.size() - kHead.size();
  return StrCat(family.architecture.substr(0, size), "Model");
}

const LlamaFamily* FindLlamaFamily(std::string_view name) {
  const auto families = LlamaFamilies();
  const auto found = std::ranges::find(families, name, &LlamaFamily::name);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace stowage
