#include "nn/gpt.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/check_options.h"
#include "nn/layers.h"
#include "nn/model_parts.h"

namespace stowage {
namespace {

Status CheckConfig(const GptConfig& config) {
  const std::string& name = config.name;
  STOWAGE_RETURN_IF_ERROR(CheckSize(name, "layers", config.layers));
  STOWAGE_RETURN_IF_ERROR(CheckSize(name, "heads", config.heads));
  STOWAGE_RETURN_IF_ERROR(CheckSize(name, "width", config.width));
  STOWAGE_RETURN_IF_ERROR(CheckSize(name, "vocabulary", config.vocabulary));
  return CheckSize(name, "max_seq", config.max_seq);
}

Status CheckLogitChunk(const GptConfig& config, const ModelOptions& options) {
  if (!options.logit_chunk || *options.logit_chunk >= 0) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[model] logit_chunk ", *options.logit_chunk, " for ", config.name,
             " is negative; expected rows of a chunk, or 0 for all "
             "rows at once")};
}

// Rows of a chunk of logits; 0 for all at once.
int64_t LogitChunk(const GptConfig& config, const ModelOptions& options) {
  constexpr int64_t kLargeVocabulary = 8192;
  if (options.logit_chunk) return *options.logit_chunk;
  if (config.vocabulary < kLargeVocabulary) return 0;
  const int64_t rows = *options.batch * *options.seq;
  return std::clamp((rows + 3) / 4, kLeastLogitChunk, kMostLogitChunk);
}

}  // namespace

Result<Graph> BuildGpt(const GptConfig& config, ModelPurpose purpose,
                       const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckConfig(config));
  STOWAGE_RETURN_IF_ERROR(CheckTextModelOptions(config.name, options));
  STOWAGE_RETURN_IF_ERROR(CheckSeq(config.name, config.max_seq, options));
  STOWAGE_RETURN_IF_ERROR(CheckLogitChunk(config, options));
  const Shape rows{*options.batch, *options.seq};

  GraphBuilder g(config.name);
  const Value tokens = g.Input("tokens", DType::kI32, rows);
  Value targets;
  if (purpose != ModelPurpose::kGenerate) {
    targets = g.Input("targets", DType::kI32, rows);
  }
  Dropouts dropouts = DeclareDropouts(g, purpose, options);

  const EmbeddingResults wte =
      Embedding(tokens, "wte", config.vocabulary, config.width, options.dtype);
  Value positions = g.Param("wpe", options.dtype,
                            {config.max_seq, config.width}, Init::Normal(0.02));
  if (*options.seq < config.max_seq) {
    positions = Slice(positions, 0, 0, *options.seq);
  }
  Value x = dropouts.Apply(g.Name("embedding", Add(wte.rows, positions)));

  const TransformerOptions block{
      .heads = config.heads,
      .projection_init = Init::Normal(
          0.02 / std::sqrt(2.0 * static_cast<double>(config.layers))),
      .dropouts = &dropouts};
  for (int64_t i = 0; i < config.layers; ++i) {
    x = TransformerBlock(x, StrCat("h.", i), block);
  }
  x = LayerNorm(x, "ln_f");
  const int64_t chunk = LogitChunk(config, options);
  if (purpose != ModelPurpose::kGenerate && chunk > 0) {
    const Value loss = LinearCrossEntropy(x, wte.table, targets, chunk);
    g.Output("loss", g.Name("loss", loss));
    return g.Finish();
  }
  const Value logits = g.Name("logits", MatMul(x, wte.table, false, true));
  if (purpose == ModelPurpose::kGenerate) {
    g.Output("logits", logits);
  } else {
    g.Output("loss", g.Name("loss", CrossEntropy(logits, targets)));
  }
  return g.Finish();
}

int64_t GptParameterCount(const GptConfig& config) {
  const int64_t c = config.width;
  return (config.vocabulary + config.max_seq) * c +
         config.layers * (12 * c * c + 13 * c) + 2 * c;
}

}  // namespace stowage
