// A small convolutional net for pictures of 28 x 28, such as Fashion-MNIST's.

#include <cmath>
#include <cstdint>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/check_options.h"
#include "nn/conv.h"
#include "nn/layers.h"
#include "nn/model_parts.h"
#include "nn/models/model_list.h"

namespace stowage {
namespace {

constexpr PictureShape kPictures = {
    .channels = 1, .height = 28, .width = 28, .classes = 10};
constexpr int64_t kWidth = 16;  // channels of the first of two stages

// Two convolutions of 3 x 3, then half the height and width.
Value Stage(Value h, int stage, int64_t channels,
            const BatchNormOptions& norm) {
  for (const int i : {1, 2}) {
    h = Conv(h, StrCat("conv", stage, "_", i), channels, {.padding = 1});
    h = Relu(BatchNorm(h, StrCat("bn", stage, "_", i), norm));
  }
  return MaxPool(h, {.kernel = 2});
}

Result<Graph> Build(ModelPurpose purpose, const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(
      CheckClassifierOptions("cnn-small", purpose, options));
  GraphBuilder g("cnn-small");
  const Pictures pictures = DeclarePictures(g, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const BatchNormOptions norm = {.training = purpose == ModelPurpose::kTrain};
  Value h = Stage(pictures.x, 1, kWidth, norm);
  h = Stage(h, 2, 2 * kWidth, norm);
  const int64_t batch = *options.batch;
  const int64_t features = h.ok() ? h.shape().num_elements() / batch : 1;
  const Value logits = Linear(
      dropouts.Apply(Reshape(h, {batch, features})), "fc",
      options.pictures->classes,
      {.init = Init::Uniform(1 / std::sqrt(static_cast<double>(features)))});
  return FinishClassifier(g, logits, pictures.labels, purpose);
}

constexpr int64_t ConvParams(int64_t in, int64_t out) {
  return 9 * in * out + 2 * out;  // and its batch norm's
}

}  // namespace

ModelInfo models::CnnSmall() {
  const int64_t positions = (kPictures.height / 4) * (kPictures.width / 4);
  return {.name = "cnn-small",
          .description =
              "classifier of 28 x 28 pictures, four convolutions of 3 x 3",
          .data = ModelData::kPictures,
          .batch = 64,
          .vocabulary = kPictures.classes,
          .params = ConvParams(1, kWidth) + ConvParams(kWidth, kWidth) +
                    ConvParams(kWidth, 2 * kWidth) +
                    ConvParams(2 * kWidth, 2 * kWidth) +
                    2 * kWidth * positions * kPictures.classes +
                    kPictures.classes,
          .pictures = kPictures,
          .augmentation = {.pad = 2, .flip = true},
          .training = {.optimizer = "adamw",
                       .decay = 0.01,
                       .steps = 6000,
                       .schedule = {.peak = 3e-3,
                                    .warmup = 200,
                                    .final_factor = 0.01}},
          .build = Build};
}

}  // namespace stowage
