#ifndef STOWAGE_NN_SCHEDULE_H_
#define STOWAGE_NN_SCHEDULE_H_

// The learning rate as a function of the step: a linear warm-up to the peak,
// then half a cosine down to a fraction of it. The rate is an input of the
// training step, so a schedule costs no recompilation.
//
//   LearningRateSchedule schedule{.peak = 3e-3, .warmup = 50};
//   runner.Write("lr", static_cast<float>(schedule.At(step, steps)));

#include <cstdint>

namespace stowage {

struct LearningRateSchedule {
  double peak = 0;
  int64_t warmup = 0;       // steps until the peak
  double final_factor = 1;  // the last step's rate is peak * final_factor

  /// The rate of `step`, which counts from 1, in a run of `steps` steps. Steps
  /// past the end keep the last rate. A warm-up that does not fit the run is
  /// shortened to a tenth of it.
  double At(int64_t step, int64_t steps) const;
};

}  // namespace stowage

#endif  // STOWAGE_NN_SCHEDULE_H_
