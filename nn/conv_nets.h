#ifndef STOWAGE_NN_CONV_NETS_H_
#define STOWAGE_NN_CONV_NETS_H_

// Convolutions with params of their own (nn/layers.h says what a layer is), over x
// (N, C, spatial...) of 1 to 3 spatial dimensions. Weights are laid out as PyTorch's,
// (out, in / groups, kernel...), or (in, out, kernel...) for a transposed one, so its
// files load as they are.
//
//   Value h = Conv(x, "conv1", 64, {.kernel = 7, .stride = 2, .padding = 3});
//   h = Relu(BatchNorm(h, "bn1"));

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/windows.h"
#include "nn/model_options.h"

namespace stowage {

struct ConvLayerOptions {
  EachDimension kernel = 3;
  EachDimension stride = 1;
  EachDimension padding = 0;
  EachDimension dilation = 1;
  int64_t groups = 1;
  bool bias = false;              // batch norm, which mostly follows, has one
  std::optional<Init> init = {};  // of the weight, in place of Conv's
};

/// x (N, C, in...) -> (N, channels, out...). Params "<name>.weight", normal with
/// deviation sqrt(2 / (channels * kernel / groups)) at first (He et al. 2015, for the
/// backward pass, as torchvision's nets), and, with bias, "<name>.bias" (channels),
/// zeros. Errors: those of the op (ir/ops.h); channels that do not divide by the
/// groups.
Value Conv(Value x, std::string_view name, int64_t channels,
           const ConvLayerOptions& options = {},
           SourceLoc loc = SourceLoc::Current());

struct ConvTransposeLayerOptions {
  EachDimension kernel = 2;
  EachDimension stride = 2;
  bool bias = false;
};

/// x (N, C, in...) -> (N, channels, (in - 1) * stride + kernel...): an up-convolution.
/// Params "<name>.weight", normal with deviation sqrt(2 / n) at first, where n = C *
/// kernel / stride numbers add up to one of the result, and, with bias, "<name>.bias"
/// (channels), zeros. Errors: those of the op; channels below 1.
Value ConvTranspose(Value x, std::string_view name, int64_t channels,
                    const ConvTransposeLayerOptions& options = {},
                    SourceLoc loc = SourceLoc::Current());

// Residual nets (He et al. 2016), with the shapes and the names of torchvision's.
// The stride of a bottleneck is that of its 3 x 3 convolution.
//
//   Result<Graph> graph = BuildResNet(
//       ResNet18(), ModelPurpose::kTrain,
//       {.batch = 64, .images = ImageShape{3, 32, 32, 10}});

struct ResNetConfig {
  std::string name;
  std::array<int64_t, 4>
      blocks;               // of each stage, of 64, 128, 256, 512 channels
  bool bottleneck = false;  // three convolutions a block, four times as wide
};

ResNetConfig ResNet18();
ResNetConfig ResNet50();

/// Elements of all params, for images of `channels` and so many classes.
int64_t CountParams(const ResNetConfig& config, int64_t channels,
                    int64_t classes);

/// Inputs "x" f32 (B, C, H, W), cast to the dtype of the options, and "y" i32 (B).
/// Outputs "loss", the mean cross-entropy in nats; when evaluating, where batch norms
/// read their running statistics, also "predictions" i32 (B). Errors: those of
/// CheckClassifierOptions. Precondition: the options have images. Dropout is before
/// the last layer.
Result<Graph> BuildResNet(const ResNetConfig& config, ModelPurpose purpose,
                          const ModelOptions& options);

// MobileNetV2 (Sandler et al. 2018): blocks that widen by a convolution of 1 x 1,
// convolve each channel by itself, and narrow again without bending. Shapes and names
// are torchvision's, but that the linear weight is (in, out).
//
//   Result<Graph> graph = BuildMobileNet(
//       MobileNetV2(), ModelPurpose::kTrain,
//       {.batch = 32, .images = ImageShape{3, 224, 224, 1000}});

struct MobileNetStage {
  int64_t expansion = 1;  // how much wider than its input a block is inside
  int64_t channels = 1;
  int64_t blocks = 1;
  int64_t stride = 1;  // of the first block
};

struct MobileNetConfig {
  std::string name;
  int64_t first = 32;  // channels of the first convolution, of stride 2
  std::vector<MobileNetStage> stages;
  int64_t last = 1280;  // channels of the last one, of 1 x 1
};

MobileNetConfig MobileNetV2();

/// Elements of all params, for images of `channels` and so many classes.
int64_t CountParams(const MobileNetConfig& config, int64_t channels,
                    int64_t classes);

/// Inputs "x" f32 (B, C, H, W), cast to the dtype of the options, and "y" i32 (B).
/// Outputs "loss", the mean cross-entropy in nats; when evaluating, where batch norms
/// read their running statistics, also "predictions" i32 (B). Dropout is before the
/// last layer. Errors: those of CheckClassifierOptions. Precondition: the options
/// have images.
Result<Graph> BuildMobileNet(const MobileNetConfig& config,
                             ModelPurpose purpose, const ModelOptions& options);

// The deep nets of Simonyan and Zisserman (2015), without batch norm: convolutions of
// 3 x 3 in stages that each end by halving the map, and three linear layers. Shapes
// and names are torchvision's, but that linear weights are (in, out).
//
//   Result<Graph> graph = BuildVgg(
//       Vgg19(), ModelPurpose::kTrain,
//       {.batch = 32, .images = ImageShape{3, 224, 224, 1000}});

struct VggConfig {
  std::string name;
  std::vector<std::vector<int64_t>> stages;  // channels of each convolution
  int64_t hidden = 4096;                     // of the two hidden linear layers
};

VggConfig Vgg19();

/// Elements of all params, for images of `channels` and so many classes.
int64_t CountParams(const VggConfig& config, int64_t channels, int64_t classes);

/// Inputs "x" f32 (B, C, H, W), cast to the dtype of the options, and "y" i32 (B).
/// Outputs "loss", the mean cross-entropy in nats; when evaluating, also
/// "predictions" i32 (B). The last map is brought to 7 x 7: a side of 7 stays, a
/// multiple of 7 is averaged, a single position is repeated. Dropout follows the two
/// hidden linear layers. Errors: those of CheckClassifierOptions; images whose last
/// map has other sides. Precondition: the options have images.
Result<Graph> BuildVgg(const VggConfig& config, ModelPurpose purpose,
                       const ModelOptions& options);

// U-Net (Ronneberger et al. 2015), which gives every pixel a class: stages of two
// convolutions, each of half the height and width and twice the channels, then the
// way back by up-convolutions, each joined with the stage of its size. Unlike in the
// paper, maps keep their size (padding 1) and convolutions have batch norms.
//
//   Result<Graph> graph = BuildUNet(
//       UNet(), ModelPurpose::kTrain,
//       {.batch = 4, .images = ImageShape{1, 256, 256, 2}});
//
// Params: "encoder.<i>.conv1.weight", "encoder.<i>.bn1.weight", ..., "bottom.conv1
// .weight", ..., "decoder.<i>.up.weight", "decoder.<i>.conv1.weight", ...,
// "head.weight", "head.bias", with i from 0, the whole image.

struct UNetConfig {
  std::string name;
  int64_t width = 64;  // channels of the first stage
  int64_t depth = 4;   // how often the image is halved
};

UNetConfig UNet();

/// Elements of all params, for images of `channels` and so many classes.
int64_t CountParams(const UNetConfig& config, int64_t channels,
                    int64_t classes);

/// Inputs "x" f32 (B, C, H, W), cast to the dtype of the options, and "y" i32
/// (B, H, W), a class for each pixel. Outputs "loss", the mean cross-entropy of a
/// pixel in nats; when evaluating, where batch norms read their running statistics,
/// also "predictions" i32 (B, H, W). Dropout is at the bottom. Errors: those of
/// CheckClassifierOptions; heights and widths that cannot be halved so often.
/// Precondition: the options have images.
Result<Graph> BuildUNet(const UNetConfig& config, ModelPurpose purpose,
                        const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_CONV_NETS_H_
