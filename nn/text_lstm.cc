#include "nn/text_lstm.h"

#include <cmath>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/shape.h"
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

// What the runs before have left in caches of the layers.
std::vector<LstmState> KeptStates(GraphBuilder& g, const TextLstmConfig& config,
                                  const ModelOptions& options) {
  const Shape shape{*options.batch, config.hidden};
  std::vector<LstmState> states;
  for (int64_t i = 0; i < config.layers; ++i) {
    states.push_back({g.Cache(StrCat("lstm.h_l", i), options.dtype, shape),
                      g.Cache(StrCat("lstm.c_l", i), options.dtype, shape)});
  }
  return states;
}

}  // namespace

Result<Graph> BuildTextLstm(const TextLstmConfig& config, ModelPurpose purpose,
                            const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckConfig(config));
  STOWAGE_RETURN_IF_ERROR(
      CheckTextModelOptions(config.name, config.max_seq, purpose, options));
  STOWAGE_RETURN_IF_ERROR(CheckNoLogitChunk(config.name, options));

  GraphBuilder g(config.name);
  const Text text = DeclareText(g, purpose, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const Value table =
      g.Param("embedding.weight", options.dtype,
              {config.vocabulary, config.width}, Init::Uniform(1));
  Value x = dropouts.Apply(g.Name("embedding", Gather(table, text.tokens)));
  std::vector<LstmState> kept;
  if (options.cache) kept = KeptStates(g, config, options);
  const LstmResults lstm =
      Lstm(x, "lstm", config.hidden,
           {.layers = config.layers, .initial = kept, .dropouts = &dropouts});
  for (size_t i = 0; i < kept.size() && !g.error(); ++i) {
    Assign(kept[i].h, lstm.last[i].h);
    Assign(kept[i].c, lstm.last[i].c);
  }
  x = options.cache ? LastToken(lstm.y) : lstm.y;
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
