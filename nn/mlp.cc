#include "nn/mlp.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/check_options.h"
#include "nn/initializers.h"
#include "nn/layers.h"
#include "nn/model_parts.h"

namespace stowage {
Result<Graph> BuildMlp(ModelPurpose purpose, const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckClassifierOptions("mlp", purpose, options));
  const PictureShape pictures = options.pictures.value_or(kMlpPictures);
  const int64_t inputs = pictures.size();
  GraphBuilder g("mlp");
  const Value x = g.Input("x", DType::kF32, {*options.batch, inputs});
  const Value y = g.Input("y", DType::kI32, {*options.batch});
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  Value h = Cast(x, options.dtype);
  h = g.Name("relu1", Relu(Linear(h, "fc1", kMlpHidden,
                                  {.init = KaimingNormal(inputs)})));
  h = dropouts.Apply(h);
  h = g.Name("relu2", Relu(Linear(h, "fc2", kMlpHidden,
                                  {.init = KaimingNormal(kMlpHidden)})));
  h = dropouts.Apply(h);
  const Value logits =
      Linear(h, "fc3", pictures.classes, {.init = KaimingNormal(kMlpHidden)});
  return FinishClassifier(g, logits, y, purpose);
}

}  // namespace stowage
