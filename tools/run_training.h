#ifndef STOWAGE_TOOLS_RUN_TRAINING_H_
#define STOWAGE_TOOLS_RUN_TRAINING_H_

// A training command from its options to its last line, whatever is trained: a model by
// name, an ONNX file's, a published language model. Its steps are those of train/run.h.

#include "tools/model_flags.h"
#include "tools/rank_run.h"
#include "tools/train_flags.h"

namespace stowage::tools {

/// Plans the step of `spec` and takes the steps, with the other ranks there are; prints
/// results, or why there are none. Returns the exit code.
int RunTraining(const TrainFlags& flags, const StepSpec& spec, RankRun& ranks);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RUN_TRAINING_H_
