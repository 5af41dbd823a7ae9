#include "nn/model_parts.h"

#include "ir/dtype.h"
#include "ir/ops.h"

namespace stowage {

Pictures DeclarePictures(GraphBuilder& g, const ModelOptions& options) {
  const auto [channels, height, width, classes] = *options.pictures;
  const int64_t batch = *options.batch;
  const Value x = g.Input("x", DType::kF32, {batch, channels, height, width});
  const Value labels = g.Input("y", DType::kI32, {batch});
  return {Cast(x, options.dtype), labels};
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

}  // namespace stowage
