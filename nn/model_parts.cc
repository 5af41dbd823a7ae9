#include "nn/model_parts.h"

#include <algorithm>

#include "ir/dtype.h"
#include "ir/logit_chunk.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "nn/model_options.h"

namespace stowage {
namespace {

// Rows of a chunk of logits; 0 for all at once.
int64_t LogitRows(int64_t vocabulary, const ModelOptions& options) {
  if (options.logit_chunk) return *options.logit_chunk;
  if (vocabulary < kLargeVocabulary) return 0;
  return LogitChunk(*options.batch * *options.seq);
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
  Text text;
  text.tokens = g.Input("tokens", DType::kI32, rows);
  if (purpose == ModelPurpose::kGenerate) return text;
  text.targets = g.Input("targets", DType::kI32, rows);
  if (options.weighted_targets) {
    const DType dtype =
        options.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    text.weights = g.Input("target_weights", dtype, rows);
  }
  return text;
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
                         ModelPurpose purpose, const ModelOptions& options) {
  int64_t chunk = head.ok() ? LogitRows(head.dim(0), options) : 0;
  if (chunk == 0 && options.weighted_targets) {
    chunk = *options.batch * *options.seq;
  }
  if (purpose != ModelPurpose::kGenerate && chunk != 0) {
    const Value loss = LinearCrossEntropy(x, head, text.targets, chunk,
                                          {.weights = text.weights});
    g.Output("loss", g.Name("loss", loss));
    return g.Finish();
  }
  if (options.cache) x = LastToken(x);
  const Value logits = g.Name("logits", MatMul(x, head, false, true));
  if (purpose == ModelPurpose::kGenerate) {
    g.Output("logits", logits);
  } else {
    g.Output("loss", g.Name("loss", CrossEntropy(logits, text.targets)));
  }
  return g.Finish();
}

}  // namespace stowage
