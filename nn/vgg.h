#ifndef STOWAGE_NN_VGG_H_
#define STOWAGE_NN_VGG_H_

// The deep nets of Simonyan and Zisserman (2015), without batch norm: convolutions of
// 3 x 3 in stages that each end by halving the map, and three linear layers. Shapes
// and names are torchvision's, but that linear weights are (in, out).
//
//   Result<Graph> graph = BuildVgg(
//       Vgg19(), ModelPurpose::kTrain,
//       {.batch = 32, .pictures = PictureShape{3, 224, 224, 1000}});

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

struct VggConfig {
  std::string name;
  std::vector<std::vector<int64_t>> stages;  // channels of each convolution
  int64_t hidden = 4096;                     // of the two hidden linear layers
};

VggConfig Vgg19();

/// Elements of all params, for pictures of `channels` and so many classes.
int64_t CountParams(const VggConfig& config, int64_t channels, int64_t classes);

/// Inputs "x" f32 (B, C, H, W), cast to the dtype of the options, and "y" i32 (B).
/// Outputs "loss", the mean cross-entropy in nats; when evaluating, also
/// "predictions" i32 (B). The last map is brought to 7 x 7: a side of 7 stays, a
/// multiple of 7 is averaged, a single position is repeated. Dropout follows the two
/// hidden linear layers. Errors: those of CheckClassifierOptions; pictures whose last
/// map has other sides. Precondition: the options have pictures.
Result<Graph> BuildVgg(const VggConfig& config, ModelPurpose purpose,
                       const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_VGG_H_
