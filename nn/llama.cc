#include "nn/llama.h"

#include <cmath>
#include <string_view>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/check_options.h"
#include "nn/feed_forward.h"
#include "nn/layers.h"
#include "nn/model_parts.h"
#include "nn/norms.h"

namespace stowage {
namespace {

Status CheckConfig(const LlamaConfig& config) {
  STOWAGE_RETURN_IF_ERROR(
      CheckModelSizes(config.name, {{"layers", config.layers},
                                    {"heads", config.heads},
                                    {"kv_heads", config.kv_heads},
                                    {"width", config.width},
                                    {"hidden", config.hidden},
                                    {"vocabulary", config.vocabulary},
                                    {"max_seq", config.max_seq}}));
  if (config.width % (2 * config.heads) != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[model] ", config.name, " has ", config.heads,
                        " heads over a width of ", config.width,
                        "; each must have an even number of elements, for "
                        "they turn in pairs")};
  }
  if (config.heads % config.kv_heads != 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[model] ", config.name, " has ", config.heads, " heads and ",
               config.kv_heads, " kv_heads; these must divide the heads")};
  }
  return {};
}

class Blocks {
 public:
  Blocks(const LlamaConfig& config, Dropouts* dropouts)
      : config_(config),
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
               name + ".mlp", config_.hidden, {.down_init = residual_init_});
    return g.Name(name, Add(h, dropouts_.Apply(wide)));
  }

 private:
  // One of q, k and v: (B, T, heads, D).
  Value Heads(Value x, const std::string& name, int64_t heads) {
    const int64_t depth = config_.width / config_.heads;
    const Value y = Linear(x, name, heads * depth, {.bias = false});
    return Reshape(y, {x.dim(0), x.dim(1), heads, depth});
  }

  Value Attention(Value x, const std::string& name) {
    if (!x.ok()) return x;
    const RopeOptions rope = {.base = config_.rope_base};
    const Value q = Heads(x, name + ".q_proj", config_.heads);
    const Value k = Heads(x, name + ".k_proj", config_.kv_heads);
    const Value v = Heads(x, name + ".v_proj", config_.kv_heads);
    const Value attended =
        CausalAttention(Rope(q, Value(), rope), Rope(k, Value(), rope), v);
    const Value y =
        Linear(Reshape(attended, x.shape()), name + ".o_proj", config_.width,
               {.bias = false, .init = residual_init_});
    return dropouts_.Apply(y);
  }

  const LlamaConfig& config_;
  const Init residual_init_;  // of what ends in the residual stream
  Dropouts& dropouts_;
};

}  // namespace

Result<Graph> BuildLlama(const LlamaConfig& config, ModelPurpose purpose,
                         const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckConfig(config));
  STOWAGE_RETURN_IF_ERROR(
      CheckTextModelOptions(config.name, config.max_seq, options));
  GraphBuilder g(config.name);
  const Text text = DeclareText(g, purpose, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const EmbeddingResults embedding =
      Embedding(text.tokens, "model.embed_tokens.weight", config.vocabulary,
                config.width, options.dtype);
  Value x = dropouts.Apply(embedding.rows);
  Blocks blocks(config, &dropouts);
  for (int64_t i = 0; i < config.layers; ++i) {
    x = blocks.Apply(x, StrCat("model.layers.", i));
  }
  x = RmsNorm(x, "model.norm", config.eps);
  const Value head =
      config.tied_head
          ? embedding.table
          : g.Param("lm_head.weight", options.dtype,
                    {config.vocabulary, config.width}, Init::Normal(0.02));
  return FinishText(g, x, head, text.targets, purpose, options);
}

int64_t LlamaParameterCount(const LlamaConfig& config) {
  const int64_t c = config.width;
  const int64_t k = c / config.heads * config.kv_heads;
  const int64_t embeddings = (config.tied_head ? 1 : 2) * config.vocabulary * c;
  return embeddings +
         config.layers *
             (2 * c * c + 2 * c * k + 3 * c * config.hidden + 2 * c) +
         c;
}

}  // namespace stowage
