#ifndef STOWAGE_AUTODIFF_RANK_STEP_H_
#define STOWAGE_AUTODIFF_RANK_STEP_H_

// The training step of one of several ranks, which each take a part of a batch.
//
//   Result<MicroBatchedStep> step =
//       BuildRankStep(whole, part, {{&part}}, "loss",
//                     {.ranks = 4, .rank = 1, .shard = Sharding::kStates});

#include <span>
#include <string_view>

#include "autodiff/pieces.h"
#include "autodiff/ranks.h"
#include "autodiff/train_options.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// The training step of one of several ranks, which takes a part of the batch and, with
/// the others, makes what one rank would make of all parts as pieces, one after the
/// other: bit for bit, where every rank takes its part at once. `whole` is the model for
/// the whole batch; `part`, of the same model, for this rank's share of it, which is less;
/// `pieces` make up the part, or are the part itself. Inputs are the part's, and so are
/// outputs with a dimension of the batch's examples; the others are the whole batch's, and
/// equal on every rank. Gradients are summed in rank order as they come
/// (autodiff/gradient_buckets.h), and so is what model states move to
/// (autodiff/model_states.h). With sharding, states are blocks, "own:w.m" of "w.m", and
/// with Sharding::kWeights so are params (autodiff/shard_weights.h). Graphs of ranks with
/// parts of one size differ in the ids of dropouts, and in which elements of a param an
/// update that rounds by chance has, in nothing else. Errors: those of
/// BuildMicroBatchedStep, CheckRanks, JoinModelStates and ShardWeights; with sharding,
/// kUnsupported for an optimizer that cannot update a block by itself, and
/// kInvalidArgument for gradients that are to be given out.
Result<MicroBatchedStep> BuildRankStep(const Graph& whole, const Graph& part,
                                       std::span<const Graph* const> pieces,
                                       std::string_view loss,
                                       const Ranks& ranks,
                                       const TrainOptions& options = {},
                                       Pieces which = Pieces::kAll);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_RANK_STEP_H_
