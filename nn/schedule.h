#ifndef STOWAGE_NN_SCHEDULE_H_
#define STOWAGE_NN_SCHEDULE_H_

// The learning rate as a function of the step: a linear warm-up to the peak, then a
// decay of one of six kinds. The rate is an input of the training step, so changing it needs
// no new plan.
//
//   LearningRateSchedule schedule{.peak = 3e-3, .warmup = 50};
//   runner.Write("lr", static_cast<float>(schedule.At(step, steps)));
//
// The formulas are those of transformers (get_scheduler), whose multiplier after N
// scheduler steps is that of step N here: the first step has a rate above 0, and the
// last one the final rate.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stowage {

/// The rate after the warm-up.
enum class ScheduleKind : uint8_t {
  kConstant,    // the peak
  kLinear,      // linear to the final rate
  kCosine,      // half a cosine to the final rate
  kWsd,         // warm-up, stable, decay: the peak, then half a cosine
  kPolynomial,  // (1 - fraction of the run)^power to the final rate
  kInverseSqrt,  // peak * sqrt(warmup / step), or of 10,000 steps without a warm-up
};

struct LearningRateSchedule {
  double peak = 0;
  int64_t warmup = 0;  // steps until the peak
  /// The last step's rate is peak * final_factor. For kInverseSqrt it is a lower bound after
  /// the warm-up; kConstant ignores it.
  double final_factor = 1;
  ScheduleKind kind = ScheduleKind::kCosine;
  double power = 1;          // of kPolynomial
  double decay_share = 0.2;  // of kWsd: the decay's fraction of the steps

  /// The rate of `step`, which counts from 1, in a run of `steps` steps. Steps
  /// past the end keep the last rate. A warm-up that does not fit the run is
  /// shortened to a tenth of it.
  double At(int64_t step, int64_t steps) const;
};

/// "constant", "linear", "cosine", "wsd", "polynomial" or "inverse_sqrt".
std::string_view ScheduleName(ScheduleKind kind);
/// All names: "constant, linear, ... or inverse_sqrt".
std::string ScheduleChoices();
/// The kind of that name, or an error naming the choices.
Result<ScheduleKind> ParseSchedule(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_NN_SCHEDULE_H_
