#include "nn/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace stowage {

double LearningRateSchedule::At(int64_t step, int64_t steps) const {
  const int64_t rise = warmup < steps ? warmup : steps / 10;
  if (step <= rise) {
    return peak * static_cast<double>(step) / static_cast<double>(rise);
  }
  const double done = std::min(
      1.0, static_cast<double>(step - rise) /
               static_cast<double>(std::max<int64_t>(1, steps - rise)));
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * done));
  return peak * (final_factor + (1 - final_factor) * cosine);
}

}  // namespace stowage
