#ifndef STOWAGE_TOOLS_CLASSIFY_TASK_H_
#define STOWAGE_TOOLS_CLASSIFY_TASK_H_

// Batches of texts with labels, for an encoder that classifies them (nn/encoder.h).

#include <cstdint>
#include <memory>

#include "tools/task.h"
#include "tools/tuning.h"

namespace stowage::tools {

/// The task of the labeled texts of `tuning`, which must outlive it. An evaluation gives the
/// mean cross-entropy of the validation set, its accuracy and its Metric::kF1Macro
/// (train/evaluation.h). Precondition: the tuning has labeled texts.
std::unique_ptr<Task> MakeClassifyTask(const Tuning& tuning, int64_t batch,
                                       uint64_t seed, const TaskShare& share);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_CLASSIFY_TASK_H_
