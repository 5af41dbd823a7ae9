#include "nn/model_parts.h"

#include "ir/dtype.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "nn/picture_shape.h"

namespace stowage {

namespace {

Pictures Declare(GraphBuilder& g, const ModelOptions& options,
                 const Shape& labels) {
  const PictureShape& of = *options.pictures;
  const Value x = g.Input("x", DType::kF32,
                          {*options.batch, of.channels, of.height, of.width});
  const Value y = g.Input("y", DType::kI32, labels);
  return {Cast(x, options.dtype), y};
}

}  // namespace

Pictures DeclarePictures(GraphBuilder& g, const ModelOptions& options) {
  return Declare(g, options, {*options.batch});
}

Pictures DeclareLabelledPixels(GraphBuilder& g, const ModelOptions& options) {
  const PictureShape& of = *options.pictures;
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

}  // namespace stowage
