#ifndef STOWAGE_NN_CONV_H_
#define STOWAGE_NN_CONV_H_

// Convolutions with params of their own (nn/layers.h says what a layer is), over x
// (N, C, spatial...) of 1 to 3 spatial dimensions. Weights are laid out as PyTorch's,
// (out, in / groups, kernel...), or (in, out, kernel...) for a transposed one, so its
// files load as they are.
//
//   Value h = Conv(x, "conv1", 64, {.kernel = 7, .stride = 2, .padding = 3});
//   h = Relu(BatchNorm(h, "bn1"));

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/builder.h"
#include "ir/each_dimension.h"
#include "ir/graph.h"

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

}  // namespace stowage

#endif  // STOWAGE_NN_CONV_H_
