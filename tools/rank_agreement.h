#ifndef STOWAGE_TOOLS_RANK_AGREEMENT_H_
#define STOWAGE_TOOLS_RANK_AGREEMENT_H_

// What the ranks of a training command agree on: how they split params and states, that
// all of them take the same steps, and whether what rank 0 saves is saved.
//
//   Result<std::vector<Sharding>> shardings = ShardingsOf(flags, ranks);
//   Result<bool> alike = AgreeOnRun(flags, spec, run, plan, batch, ranks);

#include <cstdint>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "tools/model_flags.h"
#include "tools/rank_run.h"
#include "tools/train_flags.h"
#include "train/run.h"
#include "train/training.h"

namespace stowage::tools {

/// What --shard means to the ranks there are: choices to try one after the other until a
/// plan fits. Error kInvalidArgument: one rank has nobody to split with.
Result<std::vector<Sharding>> ShardingsOf(const TrainFlags& flags,
                                          const RankRun& ranks);

/// Removes those that leave no rank the whole weights, from which a reference comes. Error
/// kUnsupported: there is no other.
Status KeepWeightsWhole(std::vector<Sharding>* shardings);

/// Compares what the ranks of a run must have in common. Returns whether all evaluate by
/// batches of one size. Errors: those of NotesOf and of RankRun::Agree.
Result<bool> AgreeOnRun(const TrainFlags& flags, const StepSpec& spec,
                        const RunSpec& run, const TrainingPlan& plan,
                        int64_t evaluation_batch, RankRun& ranks);

/// How rank 0 has saved, which writes what the others do not, is how all have.
Status SavedByAll(const Status& own, RankRun& ranks);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RANK_AGREEMENT_H_
