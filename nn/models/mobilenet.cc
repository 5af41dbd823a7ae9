// Small nets for pictures (nn/mobilenet.h).

#include "nn/mobilenet.h"

#include "nn/models/model_list.h"

namespace stowage {
namespace {

constexpr PictureShape kImageNet = {
    .channels = 3, .height = 224, .width = 224, .classes = 1000};

}  // namespace

ModelInfo models::MobileNetV2() {
  return {.name = "mobilenet-v2",
          .description =
              "net of convolutions by channel, with torchvision's "
              "names",
          .data = ModelData::kPictures,
          .batch = 32,
          .vocabulary = kImageNet.classes,
          .params = CountParams(stowage::MobileNetV2(), kImageNet.channels,
                                kImageNet.classes),
          .pictures = kImageNet,
          .augmentation = {.pad = 4, .flip = true},
          .training = {.optimizer = "momentum",
                       .decay = 4e-5,
                       .steps = 4000,
                       .schedule = {.peak = 5e-2,
                                    .warmup = 100,
                                    .final_factor = 0.01}},
          .build = [](ModelPurpose purpose, const ModelOptions& options) {
            return BuildMobileNet(stowage::MobileNetV2(), purpose, options);
          }};
}

}  // namespace stowage
