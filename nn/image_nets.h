#ifndef STOWAGE_NN_IMAGE_NETS_H_
#define STOWAGE_NN_IMAGE_NETS_H_

// Builds networks that classify images or every pixel of an image: an MLP, ResNet, MobileNetV2,
// VGG, U-Net and the vision transformer. The params of the networks that torchvision also has are
// named as in torchvision and have the same shapes, except that the weights of linear layers are
// laid out (in, out).
//
//   Result<Graph> graph = BuildResNet(
//       ResNet18(), ModelPurpose::kTrain,
//       {.batch = 64, .images = ImageShape{3, 32, 32, 10}});
//
// Unless stated otherwise, graphs have the inputs "x", f32 (B, C, H, W), which is cast to the dtype
// of the options, and "y", i32 (B). They have the output "loss", the mean cross-entropy in nats,
// and for evaluation also "predictions", i32 (B). In evaluation, batch norms use their running
// statistics. The functions propagate errors of CheckClassifierOptions (nn/model_options.h). They
// require that the options have images, except for BuildMlp, and that all sizes in the config are
// at least 1.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

// MLP with two hidden layers and ReLU, for the 8 x 8 digits of data/digits_data.h or for flattened
// images of any size.

inline constexpr int64_t kMlpInputs = 64;
inline constexpr int64_t kMlpHidden = 128;
inline constexpr int64_t kMlpClasses = 10;
inline constexpr ImageShape kMlpImages = {
    .channels = 1, .height = 8, .width = 8, .classes = kMlpClasses};

/// Returns the graph of an MLP with linear layers "fc1", "fc2" and "fc3". Weights are initially
/// normal with standard deviation sqrt(2 / in) (He et al. 2015). The input "x" is (B, channels *
/// height * width). If the options have no images, "x" is (B, 64) and "y" is in [0, 10). Dropout
/// follows both hidden layers.
Result<Graph> BuildMlp(ModelPurpose purpose, const ModelOptions& options);

// ResNet (He et al. 2016). In a bottleneck block, the 3 x 3 convolution applies the stride.

struct ResNetConfig {
  std::string name;
  std::array<int64_t, 4>
      blocks;  // blocks of each stage; the stages have 64, 128, 256 and 512 channels
  bool bottleneck = false;  // blocks of 3 convolutions, the last 4x as wide
};

ResNetConfig ResNet18();
ResNetConfig ResNet50();

/// Returns the number of elements of all params.
int64_t CountParams(const ResNetConfig& config, int64_t channels,
                    int64_t classes);

/// Returns the graph of a ResNet. Dropout precedes the linear layer.
Result<Graph> BuildResNet(const ResNetConfig& config, ModelPurpose purpose,
                          const ModelOptions& options);

// MobileNetV2 (Sandler et al. 2018): inverted residual blocks, each with a 1 x 1 expansion, a
// depthwise convolution and a linear 1 x 1 projection.

struct MobileNetStage {
  int64_t expansion =
      1;  // ratio of a block's inner channels to its input channels
  int64_t channels = 1;
  int64_t blocks = 1;
  int64_t stride = 1;  // stride of the first block
};

struct MobileNetConfig {
  std::string name;
  int64_t first = 32;  // channels of the first convolution, which has stride 2
  std::vector<MobileNetStage> stages;
  int64_t last = 1280;  // channels of the last convolution, which is 1 x 1
};

MobileNetConfig MobileNetV2();

/// Returns the number of elements of all params.
int64_t CountParams(const MobileNetConfig& config, int64_t channels,
                    int64_t classes);

/// Returns the graph of a MobileNetV2. Dropout precedes the linear layer.
Result<Graph> BuildMobileNet(const MobileNetConfig& config,
                             ModelPurpose purpose, const ModelOptions& options);

// VGG (Simonyan and Zisserman 2015) without batch norm: stages of 3 x 3 convolutions, each followed
// by 2 x 2 max pooling, and three linear layers.

struct VggConfig {
  std::string name;
  std::vector<std::vector<int64_t>> stages;  // channels of each convolution
  int64_t hidden = 4096;  // hidden units of each hidden linear layer
};

VggConfig Vgg19();

/// Returns the number of elements of all params.
int64_t CountParams(const VggConfig& config, int64_t channels, int64_t classes);

/// Returns the graph of a VGG. The last feature map is resized to 7 x 7. If its height or width is
/// a multiple of 7, windows of equal size are averaged. If it is 1, it is repeated. Dropout follows
/// the two hidden linear layers. Returns kInvalidArgument if the last feature map has another
/// height or width.
Result<Graph> BuildVgg(const VggConfig& config, ModelPurpose purpose,
                       const ModelOptions& options);

// U-Net (Ronneberger et al. 2015), which classifies every pixel. Each encoder stage has two
// convolutions. Compared with the previous stage, it has half the height and width, and twice the
// channels. Each decoder stage upsamples by a transposed convolution, concatenates the result with
// the output of the encoder stage of the same size, and applies two convolutions. Unlike in the
// paper, convolutions are padded and followed by batch norm.
//
// Params are "encoder.<i>.conv1.weight", "encoder.<i>.bn1.weight", ..., "bottom.conv1.weight", ...,
// "decoder.<i>.up.weight", "decoder.<i>.conv1.weight", ..., "head.weight" and "head.bias". Stage 0
// has the full image size.

struct UNetConfig {
  std::string name;
  int64_t width = 64;  // channels of the first stage
  int64_t depth = 4;   // number of halvings of the image
};

UNetConfig UNet();

/// Returns the number of elements of all params.
int64_t CountParams(const UNetConfig& config, int64_t channels,
                    int64_t classes);

/// Returns the graph of a U-Net. The input "y" and the output "predictions" are i32 (B, H, W).
/// Dropout is applied to the output of the stage "bottom". Returns kInvalidArgument if the height
/// or width of the images is not a multiple of 2^depth.
Result<Graph> BuildUNet(const UNetConfig& config, ModelPurpose purpose,
                        const ModelOptions& options);

// Vision transformer (Dosovitskiy et al. 2021). Each square patch of the image becomes a token.
// After the last block, the vector of an additional class token is classified. Names, the order of
// norms and epsilons are those of torchvision's VisionTransformer, except that its in_proj_weight
// is a linear layer "in_proj" here.

struct ViTConfig {
  std::string name;
  int64_t patch = 8;  // height and width of a patch
  int64_t width = 192;
  int64_t heads = 3;
  int64_t layers = 12;
};

/// Returns a config with the width of DeiT-tiny. It has 5.4 million params for images of 64 x 64.
ViTConfig ViTTiny();

/// Returns the number of elements of all params.
int64_t CountParams(const ViTConfig& config, const ImageShape& images);

/// Returns the graph of a vision transformer. Dropout precedes the first block, and follows the
/// hidden layer of every MLP and every projection into the residual stream. Returns
/// kInvalidArgument if the height or width of the images is not a multiple of `patch`. The heads
/// must divide the width.
Result<Graph> BuildViT(const ViTConfig& config, ModelPurpose purpose,
                       const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_IMAGE_NETS_H_
