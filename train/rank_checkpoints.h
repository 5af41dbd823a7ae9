#ifndef STOWAGE_TRAIN_RANK_CHECKPOINTS_H_
#define STOWAGE_TRAIN_RANK_CHECKPOINTS_H_

// Checkpoints of a step whose ranks split params and states (Sharding): a shard for each
// rank, or whole values, which a run with any number of ranks loads.
//
//   Result<std::vector<uint64_t>> shards =
//       SaveShards(step, values, "run.safetensors", 400, {}, collectives);
//   if (shards.ok() && values.rank == 0) {
//     saved = SaveShardIndex(step, values, *shards, file, "run.safetensors", 400);
//   }
//
//   Result<WholeValues> whole =
//       WholeValues::Make(step_of_one_rank, backend, collectives);
//   if (Session* session = whole->session()) session->Initialize(seed);
//   Status scattered = whole->Scatter(step);
//   ...
//   Status gathered = whole->Gather(step);
//   if (Session* session = whole->session()) {
//     SaveCheckpoint(session->front(), file, done);
//   }
//
// All functions but session() are collective: every rank must call them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/graph.h"
#include "runtime/backend.h"
#include "runtime/checkpoint_file.h"
#include "runtime/session.h"
#include "runtime/values.h"

namespace stowage {

/// Saves this rank's shard, and returns the digests of all ranks' shards, for SaveShardIndex.
/// All ranks succeed, or all have the same error: that of the first rank that has one, or
/// kRankLost. `collectives` may be null if there is one rank.
Result<std::vector<uint64_t>> SaveShards(
    const Runner& step, const RankValues& values, const std::string& path,
    int64_t number, const CheckpointBase& base, Collectives* collectives);

/// Writes the bytes of a whole param or state.
using WholeSource =
    std::function<Status(const ValueInfo& leaf, std::span<std::byte> bytes)>;

/// Sets the params and states of `step` to those of rank 0's `source`: the whole value, or
/// this rank's block of it. Takes memory for the largest value beside the arena. Errors: those
/// of the source and of Runner::WriteBytes; kRankLost.
Status ScatterValues(const RankValues& values, Collectives& collectives,
                     const WholeSource& source, Runner& step);

/// Whole params and states on rank 0, in memory beside the arena: all of them there, the
/// largest on other ranks.
class WholeValues {
 public:
  /// Allocates the values of `step`, the step of one rank. Backend and collectives must
  /// outlive this. Errors: those of Session::Create.
  static Result<WholeValues> Make(const Graph& step, Backend& backend,
                                  Collectives& collectives);

  /// On rank 0, a session whose program has these params and states and no ops; null on other
  /// ranks.
  Session* session() { return session_.get(); }

  /// Gathers the values of all ranks' `step`. Errors: those of Runner::ReadBytes; kRankLost.
  Status Gather(const Runner& step);

  /// Scatters rank 0's values to all ranks' `step`, whole or by blocks. Errors: those of
  /// Runner::ReadBytes and WriteBytes; kRankLost.
  Status Scatter(Runner& step);

 private:
  WholeValues(Graph graph, Collectives& collectives)
      : graph_(std::move(graph)), collectives_(&collectives) {}

  RankValues Values() const {
    return {.whole = graph_,
            .rank = collectives_->rank(),
            .ranks = collectives_->ranks(),
            .own_name = &OwnName};
  }

  Graph graph_;
  Collectives* collectives_;
  std::unique_ptr<Session> session_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_RANK_CHECKPOINTS_H_
