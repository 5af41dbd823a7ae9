#ifndef STOWAGE_NN_MOBILENET_H_
#define STOWAGE_NN_MOBILENET_H_

// MobileNetV2 (Sandler et al. 2018): blocks that widen by a convolution of 1 x 1,
// convolve each channel by itself, and narrow again without bending. Shapes and names
// are torchvision's, but that the linear weight is (in, out).
//
//   Result<Graph> graph = BuildMobileNet(
//       MobileNetV2(), ModelPurpose::kTrain,
//       {.batch = 32, .pictures = PictureShape{3, 224, 224, 1000}});

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

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

/// Elements of all params, for pictures of `channels` and so many classes.
int64_t CountParams(const MobileNetConfig& config, int64_t channels,
                    int64_t classes);

/// Inputs "x" f32 (B, C, H, W), cast to the dtype of the options, and "y" i32 (B).
/// Outputs "loss", the mean cross-entropy in nats; when evaluating, where batch norms
/// read their running statistics, also "predictions" i32 (B). Dropout is before the
/// last layer. Errors: those of CheckClassifierOptions. Precondition: the options
/// have pictures.
Result<Graph> BuildMobileNet(const MobileNetConfig& config,
                             ModelPurpose purpose, const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_MOBILENET_H_
