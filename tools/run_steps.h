#ifndef STOWAGE_TOOLS_RUN_STEPS_H_
#define STOWAGE_TOOLS_RUN_STEPS_H_

// The steps of a training run up to its end, and what is evaluated and saved on the way.
//
//   const Work work{...};
//   Result<int64_t> last = RunSteps(work, done, loop, stop);

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "runtime/rank_values.h"
#include "runtime/session.h"
#include "tools/rank_run.h"
#include "tools/stop_signals.h"
#include "tools/task.h"
#include "tools/train_files.h"
#include "tools/train_run.h"
#include "train/training.h"
#include "train/whole_values.h"

namespace stowage::tools {

// What takes steps, and what is saved of them.
struct Work {
  const RunSpec& run;
  Training& training;
  Task& task;
  int64_t evaluation_batch;
  TrainFiles& files;
  RankRun& ranks;
  const RankValues& values;
  bool saves = false;       // checkpoints
  bool json = false;        // evaluations as objects
  bool reads_text = false;  // which has a perplexity
};

/// The params and states of a run as one rank alone has them: where ranks split them, they
/// are gathered into `whole`.
Result<Runner*> Savable(const Work& work, std::optional<WholeValues>* whole);

/// Saves as TrainFiles does, by all ranks where each writes its part.
Status Save(const Work& work, int64_t step,
            std::optional<double> held_out_loss = {}, bool best_alone = false);

/// By what was held out, after `step`; absent where nothing was. Error kNotFinite when
/// its loss is no number.
Result<std::optional<Evaluation>> Judge(const Work& work, int64_t step);

std::optional<double> LossOf(const std::optional<Evaluation>& evaluation);

/// Takes note of the evaluation behind `step` in the log, and where the run evaluates on
/// its way shows it and counts it.
void RecordEvaluation(const Work& work, int64_t step,
                      const std::optional<Evaluation>& evaluation);

/// Whether as many evaluations as --patience allows have not improved the loss.
bool IsOutOfPatience(const Work& work);

/// All steps, and what is evaluated and saved on the way; of the last step both are the
/// caller's. Returns the last step that was taken.
Result<int64_t> RunSteps(const Work& work, int64_t done, StepLoop& loop,
                         const StopSignals& stop);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RUN_STEPS_H_
