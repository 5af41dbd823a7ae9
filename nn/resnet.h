#ifndef STOWAGE_NN_RESNET_H_
#define STOWAGE_NN_RESNET_H_

// Residual nets (He et al. 2016), with the shapes and the names of torchvision's.
// The stride of a bottleneck is that of its 3 x 3 convolution.
//
//   Result<Graph> graph = BuildResNet(
//       ResNet18(), ModelPurpose::kTrain,
//       {.batch = 64, .pictures = PictureShape{3, 32, 32, 10}});

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

struct ResNetConfig {
  std::string name;
  std::array<int64_t, 4>
      blocks;               // of each stage, of 64, 128, 256, 512 channels
  bool bottleneck = false;  // three convolutions a block, four times as wide
};

ResNetConfig ResNet18();
ResNetConfig ResNet50();

/// Elements of all params, for pictures of `channels` and so many classes.
int64_t CountParams(const ResNetConfig& config, int64_t channels,
                    int64_t classes);

/// Inputs "x" f32 (B, C, H, W), cast to the dtype of the options, and "y" i32 (B).
/// Outputs "loss", the mean cross-entropy in nats; when evaluating, where batch norms
/// read their running statistics, also "predictions" i32 (B). Errors: those of
/// CheckClassifierOptions. Precondition: the options have pictures. Dropout is before
/// the last layer.
Result<Graph> BuildResNet(const ResNetConfig& config, ModelPurpose purpose,
                          const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_RESNET_H_
