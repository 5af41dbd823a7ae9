// VGG nets for pictures (nn/vgg.h).

#include "nn/vgg.h"

#include "nn/models/model_list.h"

namespace stowage {
namespace {

constexpr PictureShape kImageNet = {
    .channels = 3, .height = 224, .width = 224, .classes = 1000};

}  // namespace

ModelInfo models::Vgg19() {
  return {.name = "vgg19",
          .description =
              "16 convolutions and 3 linear layers, with "
              "torchvision's names",
          .data = ModelData::kPictures,
          .batch = 32,
          .vocabulary = kImageNet.classes,
          .params = CountParams(stowage::Vgg19(), kImageNet.channels,
                                kImageNet.classes),
          .pictures = kImageNet,
          .augmentation = {.pad = 4, .flip = true},
          .training = {.optimizer = "momentum",
                       .decay = 5e-4,
                       .steps = 4000,
                       .schedule = {.peak = 1e-2,
                                    .warmup = 100,
                                    .final_factor = 0.01}},
          .build = [](ModelPurpose purpose, const ModelOptions& options) {
            return BuildVgg(stowage::Vgg19(), purpose, options);
          }};
}

}  // namespace stowage
