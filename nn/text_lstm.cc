#include "nn/text_lstm.h"

#include <cmath>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/dtype.h"
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

Init OfHead(const TextLstmConfig& config) {
  return Init::Uniform(1 / std::sqrt(static_cast<double>(config.hidden)));
}

bool RunsInSegments(ModelPurpose purpose, const ModelOptions& options) {
  const bool adds_exactly =
      options.dtype == DType::kF32 || options.dtype == DType::kF64;
  return purpose != ModelPurpose::kGenerate && !options.cache &&
         options.dropout == 0 && adds_exactly &&
         *options.seq >= kLeastInSegments && *options.seq % kSegment == 0;
}

// (B, T) as (segments, B, kSegment).
Value InSegments(Value x) {
  const int64_t batch = x.dim(0), segments = x.dim(1) / kSegment;
  return Permute(Reshape(x, {batch, segments, kSegment}), {1, 0, 2});
}

// The loss, segment by segment. A segment's is a mean over as many tokens as any other's.
Value LossInSegments(GraphBuilder& g, const TextLstmConfig& config,
                     const ModelOptions& options, Value table,
                     const Text& text) {
  const int64_t segments = *options.seq / kSegment;
  const Value zeros =
      Fill(g, 0, options.dtype, {*options.batch, config.hidden});
  LoopOperands operands;
  operands.sliced = {InSegments(text.tokens), InSegments(text.targets)};
  operands.whole = {table};
  for (int64_t i = 0; i < config.layers; ++i) {
    operands.carried.insert(operands.carried.end(), {zeros, zeros});
    const RecurrentParams params =
        DeclareLstmParams(g, "lstm", i, options.dtype,
                          i == 0 ? config.width : config.hidden, config.hidden);
    operands.whole.insert(
        operands.whole.end(),
        {params.weight_ih, params.weight_hh, params.bias_ih, params.bias_hh});
  }
  operands.whole.push_back(g.Param("head.weight", options.dtype,
                                   {config.hidden, config.vocabulary},
                                   OfHead(config)));
  operands.whole.push_back(
      g.Param("head.bias", options.dtype, {config.vocabulary}, Init::Zeros()));
  const LoopResults results = Loop(g, segments, operands, [&](LoopBody& body) {
    Value x = Gather(body.whole(0), body.sliced(0));
    for (size_t i = 0; i < static_cast<size_t>(config.layers); ++i) {
      LstmState state = {body.carried(2 * i), body.carried(2 * i + 1)};
      const RecurrentParams params = {
          body.whole(4 * i + 1), body.whole(4 * i + 2), body.whole(4 * i + 3),
          body.whole(4 * i + 4)};
      x = LstmLayer(x, params, &state);
      body.Next(2 * i, state.h);
      body.Next(2 * i + 1, state.c);
    }
    const size_t head = operands.whole.size() - 2;
    const Value logits = Add(MatMul(x, body.whole(head)), body.whole(head + 1));
    body.Sum(CrossEntropy(logits, body.sliced(1)));
  });
  if (results.summed.empty()) return Value();  // an error is recorded
  return MulScalar(results.summed[0], 1 / static_cast<double>(segments));
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
  if (RunsInSegments(purpose, options)) {
    const Value loss = LossInSegments(g, config, options, table, text);
    if (loss.ok()) g.Output("loss", g.Name("loss", loss));
    return g.Finish();
  }
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
  const Value logits = Linear(dropouts.Apply(x), "head", config.vocabulary,
                              {.init = OfHead(config)});
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
