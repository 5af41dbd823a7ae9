#ifndef STOWAGE_NN_SCHEDULE_H_
#define STOWAGE_NN_SCHEDULE_H_

// Computes the learning rate as a function of the step: a linear warm-up to the peak, followed by
// one of six kinds of decay. The learning rate is an input of the training step, so a change of the
// rate does not require a new plan.
//
//   LearningRateSchedule schedule{.peak = 3e-3, .warmup = 50};
//   runner.Write("lr", static_cast<float>(schedule.At(step, steps)));
//
// The formulas are from get_scheduler of transformers, shifted by one step: step N, which counts
// from 1, has the rate that transformers uses after N scheduler steps. The rate of the first step
// is therefore above 0, and the last step has the final rate.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stowage {

/// The change of the rate after the warm-up.
enum class ScheduleKind : uint8_t {
  kConstant,    // stays at the peak
  kLinear,      // decreases linearly to the final rate
  kCosine,      // decreases to the final rate along half a cosine
  kWsd,         // warmup-stable-decay: the peak, then half a cosine
  kPolynomial,  // as (1 - progress)^power, to the final rate
  /// peak * sqrt(warmup / step), or peak * sqrt(n / (step + n)) with n = 10,000 if there is no
  /// warm-up.
  kInverseSqrt,
};

struct LearningRateSchedule {
  double peak = 0;
  int64_t warmup = 0;  // steps until the peak
  /// The final rate is peak * final_factor. It is the rate of the last step, except that
  /// kInverseSqrt uses it only as a lower bound after the warm-up, and kConstant ignores it.
  double final_factor = 1;
  ScheduleKind kind = ScheduleKind::kCosine;
  double power = 1;          // exponent of kPolynomial
  double decay_share = 0.2;  // fraction of the run in which kWsd decays

  /// Returns the rate of `step`, which counts from 1, in a run of `steps` steps, which must be at
  /// least 1. Steps after the last step have its rate. The warm-up of kWsd starts from the final
  /// rate, and other warm-ups from 0. If the warm-up is not shorter than the run, a tenth of the
  /// run is used instead.
  double At(int64_t step, int64_t steps) const;
};

/// Returns "constant", "linear", "cosine", "wsd", "polynomial" or "inverse_sqrt".
std::string_view ScheduleName(ScheduleKind kind);
/// Returns all names: "constant, linear, ... or inverse_sqrt".
std::string ScheduleChoices();
/// Returns the kind named `name`. Returns kInvalidArgument, listing the choices, if there is no
/// such kind.
Result<ScheduleKind> ParseSchedule(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_NN_SCHEDULE_H_
