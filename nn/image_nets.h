#ifndef STOWAGE_NN_IMAGE_NETS_H_
#define STOWAGE_NN_IMAGE_NETS_H_

// Networks that classify images, or every pixel of one: an MLP, ResNet, MobileNetV2, VGG,
// U-Net and the vision transformer. Shapes and names of params are torchvision's, except that
// weights of linear layers are (in, out).
//
//   Result<Graph> graph = BuildResNet(
//       ResNet18(), ModelPurpose::kTrain,
//       {.batch = 64, .images = ImageShape{3, 32, 32, 10}});
//
// Unless stated otherwise, graphs have the inputs "x" f32 (B, C, H, W), cast to the dtype of
// the options, and "y" i32 (B), and the outputs "loss", the mean cross-entropy in nats, and
// for evaluation, in which batch norms use their running statistics, "predictions" i32 (B).
// Errors: those of CheckClassifierOptions. Precondition: the options have images.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

// MLP: two hidden layers with relu, for the 8 x 8 digits of data/digits_data.h or for
// flattened images of any size.

inline constexpr int64_t kMlpInputs = 64;
inline constexpr int64_t kMlpHidden = 128;
inline constexpr int64_t kMlpClasses = 10;
inline constexpr ImageShape kMlpImages = {
    .channels = 1, .height = 8, .width = 8, .classes = kMlpClasses};

/// Linear layers "fc1", "fc2" and "fc3", weights normal with deviation sqrt(2 / in) (He et al.
/// 2015). Without images in the options, input "x" is (B, 64) and "y" in [0, 10). Errors:
/// batch absent or below 1; a seq or a logit_chunk; impossible images; dropout outside
/// [0, 1); an integer dtype; kUnsupported for generating.
Result<Graph> BuildMlp(ModelPurpose purpose, const ModelOptions& options);

// ResNet (He et al. 2016). The stride of a bottleneck is that of its 3 x 3 convolution.

struct ResNetConfig {
  std::string name;
  std::array<int64_t, 4>
      blocks;               // of each stage, of 64, 128, 256, 512 channels
  bool bottleneck = false;  // blocks of three convolutions, four times as wide
};

ResNetConfig ResNet18();
ResNetConfig ResNet50();

/// The number of elements of all params.
int64_t CountParams(const ResNetConfig& config, int64_t channels,
                    int64_t classes);

/// Dropout is before the last layer.
Result<Graph> BuildResNet(const ResNetConfig& config, ModelPurpose purpose,
                          const ModelOptions& options);

// MobileNetV2 (Sandler et al. 2018): inverted residual blocks of a 1 x 1 expansion, a
// depthwise convolution and a linear 1 x 1 projection.

struct MobileNetStage {
  int64_t expansion =
      1;  // inner channels of a block, as a multiple of its input's
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

/// The number of elements of all params.
int64_t CountParams(const MobileNetConfig& config, int64_t channels,
                    int64_t classes);

/// Dropout is before the last layer.
Result<Graph> BuildMobileNet(const MobileNetConfig& config,
                             ModelPurpose purpose, const ModelOptions& options);

// VGG (Simonyan and Zisserman 2015), without batch norm: stages of 3 x 3 convolutions that
// each end with a pooling by 2, and three linear layers.

struct VggConfig {
  std::string name;
  std::vector<std::vector<int64_t>> stages;  // channels of each convolution
  int64_t hidden = 4096;                     // of the two hidden linear layers
};

VggConfig Vgg19();

/// The number of elements of all params.
int64_t CountParams(const VggConfig& config, int64_t channels, int64_t classes);

/// The last feature map is resized to 7 x 7: a side of 7 is kept, a multiple of 7 averaged, a
/// single position repeated. Dropout follows the two hidden linear layers. Further error:
/// images whose last map has other sides.
Result<Graph> BuildVgg(const VggConfig& config, ModelPurpose purpose,
                       const ModelOptions& options);

// U-Net (Ronneberger et al. 2015), which classifies every pixel: encoder stages of two
// convolutions, each at half the size with twice the channels, and decoder stages of an
// up-convolution and two convolutions on its concatenation with the encoder stage of the same
// size. Unlike in the paper, convolutions are padded and followed by batch norm.
//
// Params: "encoder.<i>.conv1.weight", "encoder.<i>.bn1.weight", ..., "bottom.conv1
// .weight", ..., "decoder.<i>.up.weight", "decoder.<i>.conv1.weight", ...,
// "head.weight", "head.bias", with i from 0, the full size.

struct UNetConfig {
  std::string name;
  int64_t width = 64;  // channels of the first stage
  int64_t depth = 4;   // number of halvings of the image
};

UNetConfig UNet();

/// The number of elements of all params.
int64_t CountParams(const UNetConfig& config, int64_t channels,
                    int64_t classes);

/// Input "y" and output "predictions" are i32 (B, H, W). Dropout is at the bottom. Further
/// error: heights or widths that cannot be halved `depth` times.
Result<Graph> BuildUNet(const UNetConfig& config, ModelPurpose purpose,
                        const ModelOptions& options);

// Vision transformer (Dosovitskiy et al. 2021): square patches become tokens, and the class
// token is classified after the last block. Names, order of norms and eps are those of
// torchvision's VisionTransformer, whose in_proj_weight is a linear layer "in_proj" here.

struct ViTConfig {
  std::string name;
  int64_t patch = 8;  // height and width
  int64_t width = 192;
  int64_t heads = 3;
  int64_t layers = 12;
};

/// 5.4 million params for images of 64 x 64: the widths of DeiT-tiny.
ViTConfig ViTTiny();

/// The number of elements of all params.
int64_t CountParams(const ViTConfig& config, const ImageShape& images);

/// Dropout is before the first block and after every layer that ends in the residual stream.
/// Further error: images whose sides are not multiples of the patch.
Result<Graph> BuildViT(const ViTConfig& config, ModelPurpose purpose,
                       const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_IMAGE_NETS_H_
