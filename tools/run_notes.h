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

/// Returns the notes of a run, which are all settings on which its results depend: model, optimizer
/// and its settings, seed, learning rate and schedule, steps, batch, seq, adapters, and digests of
/// tokenizer, ONNX file and data. Returns an error if a file cannot be read.
Result<RunNotes> NotesOf(const StepSpec& spec, const RunSpec& run,
                         const TrainFlags& flags);

/// Returns the notes about model and data. The losses of two runs are comparable only if these
/// notes are equal.
RunNotes SubjectOf(const RunNotes& notes);

/// Returns a line for each difference between `notes` and the notes of the checkpoint `saved`,
/// which was read from `path`. Returns "" if there is no difference. Notes that the checkpoint
/// lacks are not compared. Returns kInvalidArgument if a setting differs without which the
/// checkpoint cannot be used: the optimizer, the dtype, the kind of loss scaling, the rank, alpha
/// and kind of adapters, or the labels.
Result<std::string> CompareNotes(const CheckpointInfo& saved,
                                 const RunNotes& notes,
                                 const std::string& path);

/// Returns the shardings of --shard, in the order in which they are tried until a plan fits.
/// Returns kInvalidArgument if a sharding is given and there is only one rank.
Result<std::vector<Sharding>> ShardingsOf(const TrainFlags& flags,
                                          const RankRun& ranks);

/// Removes shardings in which no rank has the whole weights. For losses with a reference model,
/// which need the whole weights. Returns kUnsupported if no sharding remains.
Status KeepWeightsWhole(std::vector<Sharding>* shardings);

/// Checks that the runs of all ranks have the same settings. Returns whether `evaluation_batch` is
/// equal on all ranks. Collective. Propagates errors of NotesOf and RankRun::Agree.
Result<bool> AgreeOnRun(const TrainFlags& flags, const StepSpec& spec,
                        const RunSpec& run, const TrainingPlan& plan,
                        int64_t evaluation_batch, RankRun& ranks);

/// Returns rank 0's `own`, the status of a save that only rank 0 performed, on all ranks.
/// Collective.
Status SavedByAll(const Status& own, RankRun& ranks);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RUN_NOTES_H_
