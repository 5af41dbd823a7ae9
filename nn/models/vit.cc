// Vision transformers (nn/vit.h).

#include "nn/vit.h"

#include "nn/models/model_list.h"

namespace stowage {
namespace {

constexpr PictureShape kPictures = {
    .channels = 3, .height = 64, .width = 64, .classes = 200};

}  // namespace

ModelInfo models::ViTTiny() {
  const ViTConfig config = stowage::ViTTiny();
  return {.name = "vit-tiny",
          .description =
              "vision transformer of 12 layers, patches of 8 x 8, with "
              "torchvision's names",
          .data = ModelData::kPictures,
          .batch = 64,
          .vocabulary = kPictures.classes,
          .params = CountParams(config, kPictures),
          .pictures = kPictures,
          .augmentation = {.pad = 4, .flip = true},
          .training = {.optimizer = "adamw",
                       .decay = 0.05,
                       .steps = 6000,
                       .schedule = {.peak = 1e-3,
                                    .warmup = 300,
                                    .final_factor = 0.01}},
          .build = [](ModelPurpose purpose, const ModelOptions& options) {
            return BuildViT(stowage::ViTTiny(), purpose, options);
          }};
}

}  // namespace stowage
