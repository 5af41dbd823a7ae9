#ifndef STOWAGE_TOOLS_CLASSIFY_TASK_H_
#define STOWAGE_TOOLS_CLASSIFY_TASK_H_

// Batches of texts with labels, for an encoder that classifies them (nn/encoder.h).

#include <cstdint>
#include <memory>
#include <span>

#include "tools/task.h"
#include "tools/tuning.h"

namespace stowage::tools {

/// The task of the labeled texts of `tuning`, which must outlive it. What is held out is
/// judged by the mean cross-entropy of its texts, by accuracy and by MacroF1. Precondition:
/// the tuning has labeled texts.
std::unique_ptr<Task> MakeClassifyTask(const Tuning& tuning, int64_t batch,
                                       uint64_t seed, const TaskShare& share);

/// The mean of F1 = 2 p r / (p + r), with precision p and recall r, over the labels that are
/// among the true or the predicted ones; 0 for a label that is never predicted rightly. Both
/// are from 0 up to `labels` and equally many.
double MacroF1(std::span<const int32_t> truth,
               std::span<const int32_t> predicted, int64_t labels);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_CLASSIFY_TASK_H_
