#ifndef STOWAGE_NN_NORMS_H_
#define STOWAGE_NN_NORMS_H_

// Norms beside those of nn/layers.h: of rows without a mean, as Llama has them, and
// of groups of channels or of single ones in each example, which know no batch.
// Names and meaning are PyTorch's; params take their element type from x.
//
//   Value h = RmsNorm(x, "model.norm");
//   h = Relu(GroupNorm(Conv(pictures, "conv", 32), "gn", 8));

#include <cstdint>
#include <string_view>

#include "ir/builder.h"

namespace stowage {

/// Divides the last axis of x (..., C) by the root of its mean square. Param
/// "<name>.weight" (C), ones at first.
Value RmsNorm(Value x, std::string_view name, double eps = 1e-5,
              SourceLoc loc = SourceLoc::Current());

/// Normalizes x (N, C, ...) in `groups` groups of neighbouring channels, over all
/// the numbers that an example has of one. Params "<name>.weight" (C), ones at first,
/// and "<name>.bias" (C), zeros. Error: channels that are no multiple of the groups.
Value GroupNorm(Value x, std::string_view name, int64_t groups,
                double eps = 1e-5, SourceLoc loc = SourceLoc::Current());

struct InstanceNormOptions {
  bool affine = false;  // with params "<name>.weight" and "<name>.bias", (C)
  double eps = 1e-5;
};
/// Normalizes each channel of each example of x (N, C, spatial...).
Value InstanceNorm(Value x, std::string_view name,
                   const InstanceNormOptions& options = {},
                   SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_NORMS_H_
