#ifndef OWN_WAVES_H_
#define OWN_WAVES_H_

// Defines a model of this workspace, which predicts the height of a wave at a point in time with
// residual blocks.

#include <cstdint>
#include <vector>

#include "stowage/stowage.h"

namespace own {

/// Returns the model. Its inputs are the times "t" and the heights "y", both of the shape
/// (batch, 1). Its output "loss" is the mean squared error of the predictions for "t".
stowage::Result<stowage::Graph> Waves(int64_t batch);

/// Points of a wave to train on.
struct Points {
  std::vector<float> t, y;
};
Points MakePoints(int64_t batch);

}  // namespace own

#endif  // OWN_WAVES_H_
