#ifndef OWN_WAVES_H_
#define OWN_WAVES_H_

// A model of this workspace: waves from points in time, by residual blocks.

#include <cstdint>
#include <vector>

#include "stowage/stowage.h"

namespace own {

/// Inputs "t" and "y", (batch, 1) each; output "loss", their mean squared error.
stowage::Result<stowage::Graph> Waves(int64_t batch);

/// Points of a wave, to learn from.
struct Points {
  std::vector<float> t, y;
};
Points MakePoints(int64_t batch);

}  // namespace own

#endif  // OWN_WAVES_H_
