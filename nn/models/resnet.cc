// Residual nets for pictures (nn/resnet.h).

#include "nn/resnet.h"

#include "nn/models/model_list.h"

namespace stowage {
namespace {

constexpr PictureShape kImageNet = {
    .channels = 3, .height = 224, .width = 224, .classes = 1000};

ModelInfo Info(const ResNetConfig& config, std::string_view name,
               std::string_view description,
               Result<Graph> (*build)(ModelPurpose, const ModelOptions&)) {
  return {.name = name,
          .description = description,
          .data = ModelData::kPictures,
          .batch = 32,
          .vocabulary = kImageNet.classes,
          .params = CountParams(config, kImageNet.channels, kImageNet.classes),
          .pictures = kImageNet,
          .augmentation = {.pad = 2, .flip = true},
          .training = {.optimizer = "adamw",
                       .decay = 0.05,
                       .steps = 20000,
                       .schedule = {.peak = 1e-3,
                                    .warmup = 200,
                                    .final_factor = 0.01}},
          .build = build};
}

}  // namespace

ModelInfo models::ResNet18() {
  return Info(stowage::ResNet18(), "resnet18",
              "residual net of 18 layers, with torchvision's names",
              [](ModelPurpose purpose, const ModelOptions& options) {
                return BuildResNet(stowage::ResNet18(), purpose, options);
              });
}

ModelInfo models::ResNet50() {
  return Info(stowage::ResNet50(), "resnet50",
              "residual net of 50 layers, with torchvision's names",
              [](ModelPurpose purpose, const ModelOptions& options) {
                return BuildResNet(stowage::ResNet50(), purpose, options);
              });
}

}  // namespace stowage
