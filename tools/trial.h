#ifndef STOWAGE_TOOLS_TRIAL_H_
#define STOWAGE_TOOLS_TRIAL_H_

// How fast a run will be, by taking a few of its first steps and forgetting them.
//
//   Result<Trial> trial = TrySteps(*opened, *task, /*seed=*/1);
//   trial->tokens_per_second;

#include <cstdint>

#include "base/result.h"
#include "tools/task.h"
#include "train/train.h"

namespace stowage::tools {

struct Trial {
  int64_t steps = 0;  // that were timed
  double step_seconds = 0;
  double tokens_per_second = 0;
};

/// Of a training whose params have values: the steps of `task` from the first on, each by
/// the program for its length, with a learning rate of 0. One that finds the pages of the
/// arena is not timed; then two at least, and no more once two seconds have passed or 20
/// are done. Errors: those of writing a batch and of a step.
Result<Trial> TrySteps(Training& training, Task& task, int64_t seed);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRIAL_H_
