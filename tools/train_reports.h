#ifndef STOWAGE_TOOLS_TRAIN_REPORTS_H_
#define STOWAGE_TOOLS_TRAIN_REPORTS_H_

// Prints the reports of a training command. The report of a run holds its results, as JSON and as
// text. A dry run (--dry-run) plans the step, checks files, and estimates the speed. It measures a
// few steps whose effects are dropped, or uses the rates of the device.
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

/// Returns the last line of `train --json`.
nlohmann::ordered_json ToJson(const TrainResults& results);

/// The numbers of positions in a pass over the training set. `computed` counts the positions that
/// the model computes: each example is padded to the shortest length that holds it, or packed.
/// `if_padded` counts the positions if every example were padded to the longest length. `tokens`
/// counts the tokens read. All are 0 for a text and for files of tokens.
struct Positions {
  int64_t computed = 0, if_padded = 0, tokens = 0;
};
Positions CountPositions(const Tuning& tuning);

/// Returns lines that report dropouts that are not applied, and examples that were truncated or
/// dropped.
std::string TuningText(const Tuning& tuning);

/// Returns the JSON keys of a fine-tuned model: "trainable_params", "frozen_bytes", "lengths",
/// "labels" for a classifier, and "positions_computed" and "positions_if_padded" for examples.
nlohmann::ordered_json TuningJson(const Tuning& tuning);

/// Returns a line with the model, the steps, the device, the losses and the accuracy.
std::string Headline(const TrainResults& results);

/// Returns the report of the plan and of the resources of the process.
std::string Details(const TrainResults& results);

/// Writes the image and the page of the plan, prints which other files can be written, and checks
/// the checkpoint to resume. Propagates errors of Output and TrainFiles::CheckResumed.
Status FinishDryRun(const TrainFlags& flags, const TrainFiles& files,
                    const Report& report, const Page& page,
                    const RankRun& ranks);

/// Prints the memory and the estimated time of the run. Returns the exit code.
int ShowPlan(const TrainFlags& flags, const StepSpec& spec,
             TrainingPlanner& planner, const TrainingPlan& plan,
             const Report& report, const std::optional<Predicted>& predicted,
             Backend& backend, Task& task, const RankRun& ranks);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRAIN_REPORTS_H_
