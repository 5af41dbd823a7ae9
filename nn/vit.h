#ifndef STOWAGE_NN_VIT_H_
#define STOWAGE_NN_VIT_H_

// Vision transformers (Dosovitskiy et al. 2021): an image is cut into square
// patches, each of which becomes a token, and what a class token in front of them
// has gathered after the last block is classified. Names, order of norms and their
// eps are those of torchvision's VisionTransformer; its in_proj_weight is a linear
// layer "in_proj" here, and linear weights are (in, out).
//
//   Result<Graph> graph = BuildViT(
//       ViTTiny(), ModelPurpose::kTrain,
//       {.batch = 64, .images = ImageShape{3, 64, 64, 10}});

#include <cstdint>
#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

struct ViTConfig {
  std::string name;
  int64_t patch = 8;  // height and width
  int64_t width = 192;
  int64_t heads = 3;
  int64_t layers = 12;
};

/// 5.4 million params for images of 64 x 64: the widths of DeiT-tiny.
ViTConfig ViTTiny();

/// Elements of all params, for these images.
int64_t CountParams(const ViTConfig& config, const ImageShape& images);

/// Inputs "x" f32 (B, C, H, W), cast to the dtype of the options, and "y" i32 (B).
/// Outputs "loss", the mean cross-entropy in nats; when evaluating, also
/// "predictions" i32 (B). Errors: those of CheckClassifierOptions; images that
/// patches do not cut evenly. Precondition: the options have images. Dropout is
/// before the first block and behind every layer that ends in the residual stream.
Result<Graph> BuildViT(const ViTConfig& config, ModelPurpose purpose,
                       const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_VIT_H_
