#include "nn/mlp.h"

#include <cmath>

#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/check_options.h"
#include "nn/layers.h"

namespace stowage {
namespace {

LinearOptions HeNormal(int64_t in_features) {
  return {
      .bias = true,
      .init = Init::Normal(std::sqrt(2.0 / static_cast<double>(in_features)))};
}

}  // namespace

Result<Graph> BuildMlp(ModelPurpose purpose, const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckClassifierOptions("mlp", purpose, options));
  const PictureShape pictures = options.pictures.value_or(kMlpPictures);
  const int64_t inputs = pictures.size();
  GraphBuilder g("mlp");
  const Value x = g.Input("x", DType::kF32, {*options.batch, inputs});
  const Value y = g.Input("y", DType::kI32, {*options.batch});
  Dropouts dropouts;
  if (purpose == ModelPurpose::kTrain && options.dropout > 0) {
    const Value seed = g.Input("seed", DType::kI64, {});
    const Value step = g.Input("step", DType::kI64, {});
    dropouts = Dropouts(seed, step, options.dropout);
  }
  Value h = Cast(x, options.dtype);
  h = g.Name("relu1", Relu(Linear(h, "fc1", kMlpHidden, HeNormal(inputs))));
  h = dropouts.Apply(h);
  h = g.Name("relu2", Relu(Linear(h, "fc2", kMlpHidden, HeNormal(kMlpHidden))));
  h = dropouts.Apply(h);
  const Value logits = Linear(h, "fc3", pictures.classes, HeNormal(kMlpHidden));
  g.Output("loss", g.Name("loss", CrossEntropy(logits, y)));
  if (purpose == ModelPurpose::kEvaluate) {
    g.Output("predictions", g.Name("predictions", ArgMax(logits)));
  }
  return g.Finish();
}

}  // namespace stowage
