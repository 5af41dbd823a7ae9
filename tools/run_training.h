#ifndef STOWAGE_TOOLS_RUN_TRAINING_H_
#define STOWAGE_TOOLS_RUN_TRAINING_H_

// A training run from its plan to its last line, whatever is trained: a model by name, an
// ONNX file's, a published language model.

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "runtime/initial_values.h"
#include "runtime/session.h"
#include "tools/model_flags.h"
#include "tools/rank_run.h"
#include "tools/task.h"
#include "tools/train_files.h"
#include "tools/train_flags.h"
#include "tools/train_run.h"
#include "train/checkpoint_series.h"
#include "train/train.h"
#include "train/training.h"

namespace stowage::tools {

// How fast a run will be, by taking a few of its first steps and forgetting them.
//
//   Result<Trial> trial = TrySteps(*opened, *task, /*seed=*/1);
//   trial->tokens_per_second;

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

// The steps of a training run up to its end, and what is evaluated and saved on the way.
//
//   const Work work{...};
//   Result<int64_t> last = RunSteps(work, done, loop, stop);

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

/// Plans the step of `spec` and takes the steps, with the other ranks there are; prints results, or why there are none.
/// Returns the exit code.
int RunTraining(const TrainFlags& flags, const StepSpec& spec, RankRun& ranks);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RUN_TRAINING_H_
