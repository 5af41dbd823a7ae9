#ifndef STOWAGE_TOOLS_TRAIN_REPORTS_H_
#define STOWAGE_TOOLS_TRAIN_REPORTS_H_

// Prints the reports of a training command. The report of a run contains its results, as JSON or as
// text. A dry run (--dry-run) plans the step, checks files, and estimates the speed, either by
// running a few steps and discarding their results or from the rates of the device
// (train/device.h).
//
//   std::cout << Headline(results) << "\n\n" << Details(results);
//
//   Status written = FinishDryRun(flags, files, report, page, ranks);
//   return ShowPlan(flags, spec, planner, plan, report, predicted, backend, task, ranks);

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "report/html.h"
#include "report/report.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tools/budget.h"
#include "tools/model_flags.h"
#include "tools/progress.h"
#include "tools/rank_run.h"
#include "tools/task.h"
#include "tools/train_files.h"
#include "tools/train_flags.h"
#include "tools/tuning.h"
#include "train/evaluation.h"
#include "train/run.h"
#include "train/training.h"

namespace stowage::tools {

struct TrainResults {
  std::string_view model;
  int64_t steps = 0;                           // of the whole run so far
  const EvaluationHistory* history = nullptr;  // if it evaluates between steps
  bool stops_early = false;                    // with --patience
  const RunFigures& run;
  const std::optional<Evaluation>& evaluation;  // if there is a validation set
  const std::optional<Evaluation>& base;  // of a published model before tuning
  const Tuning* tuning = nullptr;         // of a published model
  const MemoryFigures& memory;
  const Session& session;
  const Report& report;
  const std::optional<Predicted>& predicted;
  double seconds = 0;
  int ranks = 1;
};

/// Returns the JSON that `stowage train --json` prints as its last line.
nlohmann::ordered_json ToJson(const TrainResults& results);

/// The numbers of positions in a pass over the training set. `computed` is the number of positions
/// that the model computes, if each example is padded to the shortest of Tuning::lengths in which
/// it fits, or packed. `if_padded` is the number if every example were padded to the longest
/// length. `tokens` is the number of tokens without padding. All are 0 if the data are a text or
/// files of tokens.
struct Positions {
  int64_t computed = 0, if_padded = 0, tokens = 0;
};
Positions CountPositions(const Tuning& tuning);

/// Returns lines that report dropouts of config.json that are not applied, and examples that were
/// truncated or dropped.
std::string TuningText(const Tuning& tuning);

/// Returns a JSON object about a fine-tuned model with the keys "trainable_params", "frozen_bytes",
/// "lengths", "labels" for a classifier, and "positions_computed" and "positions_if_padded" for
/// examples.
nlohmann::ordered_json TuningJson(const Tuning& tuning);

/// Returns a line with the model, the number of steps, the device, the losses and the accuracy of a
/// run.
std::string Headline(const TrainResults& results);

/// Returns the report of the plan and of the resources of the process.
std::string Details(const TrainResults& results);

/// Finishes a dry run: writes the image and the page of the plan, checks the checkpoint from which
/// the run would resume, and prints which other files can be written. Propagates errors of Output
/// and TrainFiles::CheckResumed.
Status FinishDryRun(const TrainFlags& flags, const TrainFiles& files,
                    const Report& report, const Page& page,
                    const RankRun& ranks);

/// Prints the memory and the estimated time of the run that `plan` describes. Returns the exit
/// code.
int ShowPlan(const TrainFlags& flags, const StepSpec& spec,
             TrainingPlanner& planner, const TrainingPlan& plan,
             const Report& report, const std::optional<Predicted>& predicted,
             Backend& backend, Task& task, const RankRun& ranks);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRAIN_REPORTS_H_
