#ifndef STOWAGE_TOOLS_DRY_RUN_H_
#define STOWAGE_TOOLS_DRY_RUN_H_

// A run with --dry-run: its plan, how fast it would be, and whether it could begin and
// write. The speed is that of a few of its first steps, which are forgotten, or is
// predicted by the device's rates.
//
//   Status drawn = FinishDryRun(flags, files, report, page, ranks);
//   return ShowPlan(flags, spec, planner, plan, report, predicted, backend, task, ranks);

#include <optional>

#include "base/result.h"
#include "report/html.h"
#include "report/report.h"
#include "runtime/backend.h"
#include "tools/budget.h"
#include "tools/model_flags.h"
#include "tools/rank_run.h"
#include "tools/task.h"
#include "tools/train_files.h"
#include "tools/train_flags.h"
#include "train/training.h"

namespace stowage::tools {

/// Writes what a dry run has of a run's outputs, the image and the page of its plan, says
/// which others can be written, and checks what it would resume. Errors: those of Output
/// and of TrainFiles::CheckResumed.
Status FinishDryRun(const TrainFlags& flags, const TrainFiles& files,
                    const Report& report, const Page& page,
                    const RankRun& ranks);

/// Prints what the run would take, without taking it. Returns the exit code.
int ShowPlan(const TrainFlags& flags, const StepSpec& spec,
             TrainingPlanner& planner, const TrainingPlan& plan,
             const Report& report, const std::optional<Predicted>& predicted,
             Backend& backend, Task& task, const RankRun& ranks);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_DRY_RUN_H_
