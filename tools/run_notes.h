#ifndef STOWAGE_TOOLS_RUN_NOTES_H_
#define STOWAGE_TOOLS_RUN_NOTES_H_

// The notes that a run saves in its checkpoints, their comparison when it is resumed, and the
// agreement of ranks on the same run.
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

/// Everything on which the values of a run depend: model, optimizer and its settings, seed,
/// learning rate and schedule, steps, batch, seq, adapters, and digests of tokenizer, ONNX file
/// and data. Error: a file that cannot be read.
Result<RunNotes> NotesOf(const StepSpec& spec, const RunSpec& run,
                         const TrainFlags& flags);

/// The notes about model and data: losses are comparable only if these are equal.
RunNotes SubjectOf(const RunNotes& notes);

/// A line for each difference from the checkpoint's run; "" if there is none. Notes that the
/// checkpoint lacks are not compared. Error kInvalidArgument for another optimizer, whose
/// states are of no use, or another alpha of adapters, which scales their weights.
Result<std::string> CompareNotes(const CheckpointInfo& saved,
                                 const RunNotes& notes,
                                 const std::string& path);

/// The shardings of --shard to try in order until a plan fits. Error kInvalidArgument: a
/// sharding with one rank.
Result<std::vector<Sharding>> ShardingsOf(const TrainFlags& flags,
                                          const RankRun& ranks);

/// Removes shardings in which no rank has the whole weights, which a reference needs. Error
/// kUnsupported: none remains.
Status KeepWeightsWhole(std::vector<Sharding>* shardings);

/// Compares the runs of all ranks. Returns whether all evaluate with one batch size. Errors:
/// those of NotesOf and RankRun::Agree.
Result<bool> AgreeOnRun(const TrainFlags& flags, const StepSpec& spec,
                        const RunSpec& run, const TrainingPlan& plan,
                        int64_t evaluation_batch, RankRun& ranks);

/// Collective: the status of rank 0's save, which the other ranks did not take part in.
Status SavedByAll(const Status& own, RankRun& ranks);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RUN_NOTES_H_
