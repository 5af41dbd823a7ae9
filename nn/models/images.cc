// The image models of nn/models.def.

#include <cmath>
#include <cstdint>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/image_nets.h"
#include "nn/layers.h"
#include "nn/model_options.h"
#include "nn/model_parts.h"
#include "nn/models.h"

namespace stowage {
namespace {

constexpr ImageShape kImageNet = {
    .channels = 3, .height = 224, .width = 224, .classes = 1000};

}  // namespace

// A small convolutional net for 28 x 28 images, such as Fashion-MNIST.

namespace {

constexpr ImageShape kSmallImages = {
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
  const Images images = DeclareImages(g, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const BatchNormOptions norm = {.training = purpose == ModelPurpose::kTrain};
  Value h = Stage(images.x, 1, kWidth, norm);
  h = Stage(h, 2, 2 * kWidth, norm);
  const int64_t batch = *options.batch;
  const int64_t features = h.ok() ? h.shape().num_elements() / batch : 1;
  const Value logits = Linear(
      dropouts.Apply(Reshape(h, {batch, features})), "fc",
      options.images->classes,
      {.init = Init::Uniform(1 / std::sqrt(static_cast<double>(features)))});
  return FinishClassifier(g, logits, images.labels, purpose);
}

constexpr int64_t ConvParams(int64_t in, int64_t out) {
  return 9 * in * out + 2 * out;  // and its batch norm's
}

}  // namespace

ModelInfo models::CnnSmall() {
  const int64_t positions =
      (kSmallImages.height / 4) * (kSmallImages.width / 4);
  return {
      .name = "cnn-small",
      .description = "classifier of 28 x 28 images, four convolutions of 3 x 3",
      .data = ModelData::kImages,
      .batch = 64,
      .vocabulary = kSmallImages.classes,
      .params =
          ConvParams(1, kWidth) + ConvParams(kWidth, kWidth) +
          ConvParams(kWidth, 2 * kWidth) + ConvParams(2 * kWidth, 2 * kWidth) +
          2 * kWidth * positions * kSmallImages.classes + kSmallImages.classes,
      .images = kSmallImages,
      .augmentation = {.pad = 2, .flip = true},
      .training = {.optimizer = "adamw",
                   .decay = 0.01,
                   .steps = 6000,
                   .schedule = {.peak = 3e-3,
                                .warmup = 200,
                                .final_factor = 0.01}},
      .build = Build};
}

// The classifier of digits (nn/image_nets.h).

namespace {

constexpr int64_t kParams = kMlpInputs * kMlpHidden + kMlpHidden +
                            kMlpHidden * kMlpHidden + kMlpHidden +
                            kMlpHidden * kMlpClasses + kMlpClasses;

}  // namespace

ModelInfo models::Mlp() {
  return {.name = "mlp",
          .description =
              "classifier of 8 x 8 digits, two hidden layers of 128 with relu",
          .data = ModelData::kImages,
          .batch = 64,
          .vocabulary = kMlpClasses,
          .params = kParams,
          .images = kMlpImages,
          .training = {.optimizer = "adamw",
                       .decay = 0.01,
                       .steps = 1500,
                       .schedule = {.peak = 2e-3,
                                    .warmup = 20,
                                    .final_factor = 0.1}},
          .build = BuildMlp};
}

// MobileNetV2.

ModelInfo models::MobileNetV2() {
  return {.name = "mobilenet-v2",
          .description =
              "net of convolutions by channel, with torchvision's "
              "names",
          .data = ModelData::kImages,
          .batch = 32,
          .vocabulary = kImageNet.classes,
          .params = CountParams(stowage::MobileNetV2(), kImageNet.channels,
                                kImageNet.classes),
          .images = kImageNet,
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

// ResNet.

namespace {

ModelInfo Info(const ResNetConfig& config, std::string_view name,
               std::string_view description,
               Result<Graph> (*build)(ModelPurpose, const ModelOptions&)) {
  return {.name = name,
          .description = description,
          .data = ModelData::kImages,
          .batch = 32,
          .vocabulary = kImageNet.classes,
          .params = CountParams(config, kImageNet.channels, kImageNet.classes),
          .images = kImageNet,
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

// U-Net.

namespace {

constexpr ImageShape kPixelImages = {
    .channels = 1, .height = 256, .width = 256, .classes = 2};

}  // namespace

ModelInfo models::UNet() {
  return {.name = "unet",
          .description = "U-Net of four halvings, a class for each pixel",
          .data = ModelData::kPixels,
          .batch = 4,
          .vocabulary = kPixelImages.classes,
          .params = CountParams(stowage::UNet(), kPixelImages.channels,
                                kPixelImages.classes),
          .images = kPixelImages,
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

// VGG.

ModelInfo models::Vgg19() {
  return {.name = "vgg19",
          .description =
              "16 convolutions and 3 linear layers, with "
              "torchvision's names",
          .data = ModelData::kImages,
          .batch = 32,
          .vocabulary = kImageNet.classes,
          .params = CountParams(stowage::Vgg19(), kImageNet.channels,
                                kImageNet.classes),
          .images = kImageNet,
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

// Vision transformer.

namespace {

constexpr ImageShape kTinyImageNet = {
    .channels = 3, .height = 64, .width = 64, .classes = 200};

}  // namespace

ModelInfo models::ViTTiny() {
  const ViTConfig config = stowage::ViTTiny();
  return {.name = "vit-tiny",
          .description =
              "vision transformer of 12 layers, patches of 8 x 8, with "
              "torchvision's names",
          .data = ModelData::kImages,
          .batch = 64,
          .vocabulary = kTinyImageNet.classes,
          .params = CountParams(config, kTinyImageNet),
          .images = kTinyImageNet,
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
