// A net that gives every pixel a class (nn/unet.h).

#include "nn/unet.h"

#include "nn/models/model_list.h"

namespace stowage {
namespace {

constexpr PictureShape kPictures = {
    .channels = 1, .height = 256, .width = 256, .classes = 2};

}  // namespace

ModelInfo models::UNet() {
  return {.name = "unet",
          .description = "U-Net of four halvings, a class for each pixel",
          .data = ModelData::kPixels,
          .batch = 4,
          .vocabulary = kPictures.classes,
          .params = CountParams(stowage::UNet(), kPictures.channels,
                                kPictures.classes),
          .pictures = kPictures,
          .augmentation = {.flip = true},
          .training = {.optimizer = "adamw",
                       .decay = 0.01,
                       .steps = 2000,
                       .schedule = {.peak = 1e-3,
                                    .warmup = 100,
                                    .final_factor = 0.01}},
          .build = [](ModelPurpose purpose, const ModelOptions& options) {
            return BuildUNet(stowage::UNet(), purpose, options);
          }};
}

}  // namespace stowage
