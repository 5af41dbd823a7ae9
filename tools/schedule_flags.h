#ifndef STOWAGE_TOOLS_SCHEDULE_FLAGS_H_
#define STOWAGE_TOOLS_SCHEDULE_FLAGS_H_

// The options of a run's learning rate (nn/schedule.h).

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "nn/schedule.h"
#include "tools/options.h"

namespace stowage::tools {

struct ScheduleFlags {
  std::optional<double> lr;
  std::string schedule;  // empty: the model's
  std::string warmup;    // steps, or a share of them; empty: the schedule's
  std::optional<double> min_lr, power;
};

void AddScheduleOptions(Options& options, ScheduleFlags* flags);

/// `defaults` as the flags want it, but for the warm-up, which depends on the steps. A
/// kind that is named begins without the warm-up and the minimum of `defaults`. Errors,
/// kInvalidArgument, name the option: a value out of range, or one that the kind does not
/// read.
Result<LearningRateSchedule> ReadSchedule(const ScheduleFlags& flags,
                                          const LearningRateSchedule& defaults);

/// The steps of a warm-up in a run of `steps`: a whole number, or a share below 1 of
/// them, rounded up as transformers rounds warmup_ratio. Error kInvalidArgument: neither,
/// or no step of the run is behind it.
Result<int64_t> ReadWarmup(const std::string& text, int64_t steps);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_SCHEDULE_FLAGS_H_
