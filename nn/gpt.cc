#include "nn/gpt.h"

#include <cmath>
#include <optional>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/layers.h"
#include "nn/model_options.h"
#include "nn/model_parts.h"

namespace stowage {
namespace {

Status CheckGptConfig(const GptConfig& config) {
  return CheckModelSizes(config.name, {{"layers", config.layers},
                                       {"heads", config.heads},
                                       {"width", config.width},
                                       {"vocabulary", config.vocabulary},
                                       {"max_seq", config.max_seq}});
}

}  // namespace

Result<Graph> BuildGpt(const GptConfig& config, ModelPurpose purpose,
                       const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckGptConfig(config));
  STOWAGE_RETURN_IF_ERROR(
      CheckTextModelOptions(config.name, config.max_seq, purpose, options));
  STOWAGE_RETURN_IF_ERROR(CheckNoEmbedding(config.name, options));

  GraphBuilder g(config.name);
  const Text text = DeclareText(g, purpose, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  std::optional<KvCache> cache = DeclareKvCache(g, options);

  const EmbeddingResults wte = Embedding(text.tokens, "wte", config.vocabulary,
                                         config.width, options.dtype);
  Value positions = g.Param("wpe", options.dtype,
                            {config.max_seq, config.width}, Init::Normal(0.02));
  if (cache) {
    positions = Gather(positions, cache->token_positions());
  } else if (text.segments.ok()) {
    positions = Gather(positions, g.Input("positions", DType::kI32,
                                          {*options.batch, *options.seq}));
  } else if (*options.seq < config.max_seq) {
    positions = Slice(positions, 0, 0, *options.seq);
  }
  Value x = dropouts.Apply(g.Name("embedding", Add(wte.rows, positions)));

  const TransformerOptions block{
      .heads = config.heads,
      .projection_init = Init::Normal(
          0.02 / std::sqrt(2.0 * static_cast<double>(config.layers))),
      .dropouts = &dropouts,
      .cache = cache ? &*cache : nullptr,
      .segments = text.segments};
  for (int64_t i = 0; i < config.layers; ++i) {
    x = TransformerBlock(x, StrCat("h.", i), block);
  }
  x = LayerNorm(x, "ln_f");
  const Value head =
      config.tied_head
          ? wte.table
          : g.Param("lm_head.weight", options.dtype,
                    {config.vocabulary, config.width}, Init::Normal(0.02));
  return FinishText(g, x, head, text, purpose, options);
}

int64_t GptParameterCount(const GptConfig& config) {
  const int64_t c = config.width;
  const int64_t tables = config.tied_head ? 1 : 2;
  return (tables * config.vocabulary + config.max_seq) * c +
         config.layers * (12 * c * c + 13 * c) + 2 * c;
}

}  // namespace stowage
