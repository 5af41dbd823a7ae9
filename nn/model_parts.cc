#include "nn/model_parts.h"

#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/contrastive.h"
#include "nn/model_options.h"

namespace stowage {
namespace {

// Rows per chunk for that number of rows of logits; 0: all at once.
int64_t LogitRows(int64_t vocabulary, int64_t rows,
                  const ModelOptions& options) {
  if (options.logit_chunk) return *options.logit_chunk;
  if (vocabulary < kLargeVocabulary) return 0;
  return LogitChunk(rows);
}

// The type of weights and log-probabilities.
DType FloatsOf(const ModelOptions& options) {
  return options.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

// The two sequences of each pair as two consecutive examples.
Text DeclarePairs(GraphBuilder& g, const ModelOptions& options) {
  const int64_t batch = *options.batch, seq = *options.seq;
  const DType dtype = FloatsOf(options);
  const PreferenceObjective objective = options.preference->objective;
  const auto declare = [&](std::string_view name, DType type) {
    const Value pairs = g.Input(name, type, {batch, 2, seq});
    return pairs.ok() ? Reshape(pairs, {2 * batch, seq}) : pairs;
  };
  Text text;
  text.tokens = declare("tokens", DType::kI32);
  text.targets = declare("targets", DType::kI32);
  text.weights = declare("target_weights", dtype);
  if (HasReference(objective)) {
    text.reference = g.Input("reference_log_probs", dtype, {batch, 2});
  }
  if (objective == PreferenceObjective::kOrpo) {
    text.nll_weights = g.Input("nll_weights", dtype, {batch, seq});
  }
  if (!IsPaired(objective)) text.sides = g.Input("sides", dtype, {batch});
  return text;
}

Result<Graph> FinishPairs(GraphBuilder& g, Value x, Value head,
                          const Text& text, ModelPurpose purpose,
                          const ModelOptions& options, double logit_cap) {
  const int64_t batch = *options.batch, seq = *options.seq;
  const int64_t rows = 2 * batch * seq;
  int64_t chunk = head.ok() ? LogitRows(head.dim(0), rows, options) : 0;
  if (chunk == 0) chunk = rows;
  const Value nll = LinearCrossEntropyRows(x, head, text.targets, chunk,
                                           {.softcap = logit_cap});
  const Value log_probs =
      g.Name("log_probs",
             Neg(Reshape(ReduceSum(Mul(nll, text.weights), {1}), {batch, 2})));
  PreferenceInputs inputs{
      .log_probs = log_probs, .reference = text.reference, .sides = text.sides};
  if (options.preference->objective == PreferenceObjective::kOrpo) {
    const Value chosen =
        Reshape(Slice(Reshape(nll, {batch, 2, seq}), 1, 0, 1), {batch, seq});
    inputs.nll = ReduceSum(Mul(chosen, text.nll_weights), {1});
  }
  const PreferenceResults results = PreferenceLoss(inputs, *options.preference);
  g.Output("loss", g.Name("loss", ReduceMean(results.losses, {})));
  if (purpose == ModelPurpose::kEvaluate) {
    g.Output("log_probs", log_probs);
    g.Output("losses", g.Name("losses", results.losses));
    g.Output("margins", g.Name("margins", results.margins));
  }
  return g.Finish();
}

Images Declare(GraphBuilder& g, const ModelOptions& options,
               const Shape& labels) {
  const ImageShape& of = *options.images;
  const Value x = g.Input("x", DType::kF32,
                          {*options.batch, of.channels, of.height, of.width});
  const Value y = g.Input("y", DType::kI32, labels);
  return {Cast(x, options.dtype), y};
}

}  // namespace

Images DeclareImages(GraphBuilder& g, const ModelOptions& options) {
  return Declare(g, options, {*options.batch});
}

Images DeclareLabelledPixels(GraphBuilder& g, const ModelOptions& options) {
  const ImageShape& of = *options.images;
  return Declare(g, options, {*options.batch, of.height, of.width});
}

Dropouts DeclareDropouts(GraphBuilder& g, ModelPurpose purpose,
                         const ModelOptions& options) {
  if (purpose != ModelPurpose::kTrain || options.dropout == 0) return {};
  const Value seed = g.Input("seed", DType::kI64, {});
  const Value step = g.Input("step", DType::kI64, {});
  return Dropouts(seed, step, options.dropout);
}

Result<Graph> FinishClassifier(GraphBuilder& g, Value logits, Value labels,
                               ModelPurpose purpose) {
  g.Output("loss", g.Name("loss", CrossEntropy(logits, labels)));
  if (purpose == ModelPurpose::kEvaluate) {
    g.Output("predictions", g.Name("predictions", ArgMax(logits)));
  }
  return g.Finish();
}

Text DeclareText(GraphBuilder& g, ModelPurpose purpose,
                 const ModelOptions& options) {
  const Shape rows{*options.batch, *options.seq};
  if (options.preference && purpose != ModelPurpose::kGenerate) {
    return DeclarePairs(g, options);
  }
  Text text;
  text.tokens = g.Input("tokens", DType::kI32, rows);
  if (purpose == ModelPurpose::kGenerate) return text;
  text.targets = g.Input("targets", DType::kI32, rows);
  if (options.weighted_targets) {
    text.weights = g.Input("target_weights", FloatsOf(options), rows);
  }
  if (options.packed) {
    text.segments =
        g.Input("segments", DType::kI32, {*options.batch, 2, *options.seq});
  }
  return text;
}

EmbeddedTexts DeclareEmbeddedTexts(GraphBuilder& g,
                                   const ModelOptions& options) {
  const int64_t batch = *options.batch, seq = *options.seq;
  const int64_t texts = 1 + options.embedding->documents;
  const Value tokens = g.Input("tokens", DType::kI32, {batch, texts, seq});
  const Value lengths = g.Input("lengths", DType::kI32, {batch, texts});
  if (!tokens.ok()) return {tokens, lengths};
  return {Reshape(tokens, {batch * texts, seq}),
          Reshape(lengths, {batch * texts})};
}

Result<Graph> FinishEmbedding(GraphBuilder& g, Value x,
                              const EmbeddedTexts& texts, ModelPurpose purpose,
                              const ModelOptions& options) {
  const EmbeddingRules& rules = *options.embedding;
  const Value pooled = PoolTokens(x, texts.lengths, rules.pooling);
  if (!pooled.ok()) return g.Finish();
  const Value embeddings =
      Reshape(pooled, {*options.batch, 1 + rules.documents, pooled.dim(1)});
  if (purpose == ModelPurpose::kTrain) {
    g.Output("loss", g.Name("loss", InfoNce(embeddings, rules)));
    return g.Finish();
  }
  g.Output("embeddings",
           g.Name("embeddings", rules.similarity == Similarity::kCosine
                                    ? Normalized(embeddings)
                                    : embeddings));
  return g.Finish();
}

std::optional<KvCache> DeclareKvCache(GraphBuilder& g,
                                      const ModelOptions& options) {
  if (!options.cache) return std::nullopt;
  return KvCache(g, *options.batch, *options.seq, *options.cache);
}

Value LastToken(Value x) {
  if (!x.ok()) return x;
  const int64_t last = x.dim(1) - 1;
  return Reshape(Slice(x, 1, last, last + 1), {x.dim(0), x.dim(2)});
}

Result<Graph> FinishText(GraphBuilder& g, Value x, Value head, const Text& text,
                         ModelPurpose purpose, const ModelOptions& options,
                         double logit_cap) {
  if (!x.ok()) return g.Finish();
  if (options.preference && purpose != ModelPurpose::kGenerate) {
    return FinishPairs(g, x, head, text, purpose, options, logit_cap);
  }
  const int64_t rows = *options.batch * *options.seq;
  int64_t chunk = head.ok() ? LogitRows(head.dim(0), rows, options) : 0;
  if (chunk == 0 && (options.weighted_targets || logit_cap > 0)) chunk = rows;
  if (purpose != ModelPurpose::kGenerate && chunk != 0) {
    const Value loss =
        LinearCrossEntropy(x, head, text.targets, chunk,
                           {.weights = text.weights, .softcap = logit_cap});
    g.Output("loss", g.Name("loss", loss));
    return g.Finish();
  }
  if (options.cache) x = LastToken(x);
  Value logits = MatMul(x, head, false, true);
  if (logit_cap > 0) {
    logits = MulScalar(Tanh(MulScalar(logits, 1 / logit_cap)), logit_cap);
  }
  g.Name("logits", logits);
  if (purpose == ModelPurpose::kGenerate) {
    g.Output("logits", logits);
  } else {
    g.Output("loss", g.Name("loss", CrossEntropy(logits, text.targets)));
  }
  return g.Finish();
}

}  // namespace stowage
