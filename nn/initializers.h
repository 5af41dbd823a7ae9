#ifndef STOWAGE_NN_INITIALIZERS_H_
#define STOWAGE_NN_INITIALIZERS_H_

// How weights begin, by the numbers of inputs and outputs that one of them meets:
// the dimensions of a linear layer's (in, out), times the size of the window for a
// convolution's. Init (ir/graph.h) has the truncated normal and the orthogonal.
//
//   Linear(x, "fc", 128, {.init = KaimingNormal(64)});

#include <cmath>
#include <cstdint>
#include <numbers>

#include "ir/graph.h"

namespace stowage {

/// What relu takes from the size of its operands.
inline constexpr double kReluGain = std::numbers::sqrt2;

/// Activations keep their size through layers of this fan-in (He et al. 2015);
/// PyTorch's kaiming_normal_ and kaiming_uniform_. Precondition: fan_in >= 1.
inline Init KaimingNormal(int64_t fan_in, double gain = kReluGain) {
  return Init::Normal(gain / std::sqrt(static_cast<double>(fan_in)));
}
inline Init KaimingUniform(int64_t fan_in, double gain = kReluGain) {
  return Init::Uniform(gain * std::sqrt(3 / static_cast<double>(fan_in)));
}

/// Between keeping the size of activations and that of gradients (Glorot & Bengio
/// 2010); PyTorch's xavier_normal_ and xavier_uniform_. Precondition: fans of at
/// least 1.
inline Init XavierNormal(int64_t fan_in, int64_t fan_out, double gain = 1) {
  return Init::Normal(gain *
                      std::sqrt(2 / static_cast<double>(fan_in + fan_out)));
}
inline Init XavierUniform(int64_t fan_in, int64_t fan_out, double gain = 1) {
  return Init::Uniform(gain *
                       std::sqrt(6 / static_cast<double>(fan_in + fan_out)));
}

}  // namespace stowage

#endif  // STOWAGE_NN_INITIALIZERS_H_
