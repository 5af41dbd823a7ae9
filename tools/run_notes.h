#ifndef STOWAGE_TOOLS_RUN_NOTES_H_
#define STOWAGE_TOOLS_RUN_NOTES_H_

// Collects the notes that a run saves in its checkpoints, compares them when the run is resumed,
// and checks that all ranks execute the same run.
//
//   Result<RunNotes> notes = NotesOf(spec, run, flags);
//   Result<std::string> differences = CompareNotes(checkpoint, *notes, path);
//
//   Result<std::vector<Sharding>> shardings = ShardingsOf(flags, ranks);
//   Result<bool> alike = AgreeOnRun(flags, spec, run, plan, batch, ranks);

#include <cstdint>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "runtime/checkpoint_file.h"
#include "tools/model_flags.h"
#include "tools/rank_run.h"
#include "tools/train_flags.h"
#include "train/run.h"
#include "train/training.h"

namespace stowage::tools {

/// Returns all settings on which the values of a run depend: model, optimizer and its settings,
/// seed, learning rate and schedule, steps, batch, seq, adapters, and digests of tokenizer, ONNX
/// file and data. Returns an error if a file cannot be read.
Result<RunNotes> NotesOf(const StepSpec& spec, const RunSpec& run,
                         const TrainFlags& flags);

/// Returns the notes about model and data. Losses of two runs are comparable only if these are
/// equal.
RunNotes SubjectOf(const RunNotes& notes);

/// Returns a line for each difference from the checkpoint's run, or "" if there is none. Notes that
/// the checkpoint lacks are not compared. Returns kInvalidArgument if the optimizer differs,
/// because its states cannot be used, or if the alpha of adapters differs, because it scales their
/// weights.
Result<std::string> CompareNotes(const CheckpointInfo& saved,
                                 const RunNotes& notes,
                                 const std::string& path);

/// Returns the shardings of --shard, which are tried in this order until a plan fits. Returns
/// kInvalidArgument if a sharding is given for one rank.
Result<std::vector<Sharding>> ShardingsOf(const TrainFlags& flags,
                                          const RankRun& ranks);

/// Removes shardings in which no rank has the whole weights. A loss with a reference model needs
/// whole weights. Returns kUnsupported if no sharding remains.
Status KeepWeightsWhole(std::vector<Sharding>* shardings);

/// Checks that the runs of all ranks are the same. Returns whether all evaluate with the same batch
/// size. Propagates errors of NotesOf and RankRun::Agree.
Result<bool> AgreeOnRun(const TrainFlags& flags, const StepSpec& spec,
                        const RunSpec& run, const TrainingPlan& plan,
                        int64_t evaluation_batch, RankRun& ranks);

/// Returns the status of a save that only rank 0 performed. Collective.
Status SavedByAll(const Status& own, RankRun& ranks);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RUN_NOTES_H_
