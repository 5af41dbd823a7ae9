#ifndef STOWAGE_NN_UNET_H_
#define STOWAGE_NN_UNET_H_

// U-Net (Ronneberger et al. 2015), which gives every pixel a class: stages of two
// convolutions, each of half the height and width and twice the channels, then the
// way back by up-convolutions, each joined with the stage of its size. Unlike in the
// paper, maps keep their size (padding 1) and convolutions have batch norms.
//
//   Result<Graph> graph = BuildUNet(
//       UNet(), ModelPurpose::kTrain,
//       {.batch = 4, .pictures = PictureShape{1, 256, 256, 2}});
//
// Params: "encoder.<i>.conv1.weight", "encoder.<i>.bn1.weight", ..., "bottom.conv1
// .weight", ..., "decoder.<i>.up.weight", "decoder.<i>.conv1.weight", ...,
// "head.weight", "head.bias", with i from 0, the whole picture.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

struct UNetConfig {
  std::string name;
  int64_t width = 64;  // channels of the first stage
  int64_t depth = 4;   // how often the picture is halved
};

UNetConfig UNet();

/// Elements of all params, for pictures of `channels` and so many classes.
int64_t CountParams(const UNetConfig& config, int64_t channels,
                    int64_t classes);

/// Inputs "x" f32 (B, C, H, W), cast to the dtype of the options, and "y" i32
/// (B, H, W), a class for each pixel. Outputs "loss", the mean cross-entropy of a
/// pixel in nats; when evaluating, where batch norms read their running statistics,
/// also "predictions" i32 (B, H, W). Dropout is at the bottom. Errors: those of
/// CheckClassifierOptions; heights and widths that cannot be halved so often.
/// Precondition: the options have pictures.
Result<Graph> BuildUNet(const UNetConfig& config, ModelPurpose purpose,
                        const ModelOptions& options);

}  // namespace stowage

#endif  // STOWAGE_NN_UNET_H_
