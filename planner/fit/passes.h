#ifndef STOWAGE_PLANNER_FIT_PASSES_H_
#define STOWAGE_PLANNER_FIT_PASSES_H_

// How long each pass of the pipeline took. Nothing is decided by this clock.

#include <chrono>

namespace stowage::fit {

class PassClock {
 public:
  /// Seconds since the last call, or since this was made.
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> lap = now - last_;
    last_ = now;
    return lap.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ =
      std::chrono::steady_clock::now();
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_PASSES_H_
