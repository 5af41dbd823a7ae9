#include "nn/text_lstm.h"

#include <cmath>

#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/check_options.h"
#include "nn/layers.h"
#include "nn/model_parts.h"
#include "nn/recurrent.h"

namespace stowage {
namespace {

Status CheckConfig(const TextLstmConfig& config) {
  return CheckModelSizes(config.name, {{"layers", config.layers},
                                       {"width", config.width},
                                       {"hidden", config.hidden},
                                       {"vocabulary", config.vocabulary},
                                       {"max_seq", config.max_seq}});
}

}  // namespace

Result<Graph> BuildTextLstm(const TextLstmConfig& config, ModelPurpose purpose,
                            const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckConfig(config));
  STOWAGE_RETURN_IF_ERROR(
      CheckTextModelOptions(config.name, config.max_seq, options));
  STOWAGE_RETURN_IF_ERROR(CheckNoLogitChunk(config.name, options));

  GraphBuilder g(config.name);
  const Text text = DeclareText(g, purpose, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const Value table =
      g.Param("embedding.weight", options.dtype,
              {config.vocabulary, config.width}, Init::Uniform(1));
  Value x = dropouts.Apply(g.Name("embedding", Gather(table, text.tokens)));
  x = Lstm(x, "lstm", config.hidden,
           {.layers = config.layers, .dropouts = &dropouts})
          .y;
  const Init init =
      Init::Uniform(1 / std::sqrt(static_cast<double>(config.hidden)));
  const Value logits =
      Linear(dropouts.Apply(x), "head", config.vocabulary, {.init = init});
  if (purpose == ModelPurpose::kGenerate) {
    g.Output("logits", g.Name("logits", logits));
  } else {
    g.Output("loss", g.Name("loss", CrossEntropy(logits, text.targets)));
  }
  return g.Finish();
}

int64_t CountParams(const TextLstmConfig& config) {
  const int64_t h = config.hidden;
  const auto layer = [&](int64_t in) { return 4 * h * (in + h + 2); };
  return config.vocabulary * config.width + layer(config.width) +
         (config.layers - 1) * layer(h) + (h + 1) * config.vocabulary;
}

}  // namespace stowage
