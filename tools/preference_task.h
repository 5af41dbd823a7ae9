#ifndef STOWAGE_TOOLS_PREFERENCE_TASK_H_
#define STOWAGE_TOOLS_PREFERENCE_TASK_H_

// Batches of preferences (nn/losses.h): pairs of answers to one prompt, or answers that
// are good or bad.

#include <cstdint>
#include <memory>

#include "tools/task.h"
#include "tools/tuning.h"

namespace stowage::tools {

/// The task of the examples of `tuning`, which must outlive it. The held-out accuracy is
/// the part of the examples where the model prefers as they do. Precondition: the model has
/// a preference, and the data are examples.
std::unique_ptr<Task> MakePreferenceTask(const Tuning& tuning, int64_t batch,
                                         uint64_t seed, const TaskShare& share);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_PREFERENCE_TASK_H_
