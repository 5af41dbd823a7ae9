#ifndef STOWAGE_TRAIN_RANK_CHECKPOINTS_H_
#define STOWAGE_TRAIN_RANK_CHECKPOINTS_H_

// Saves and loads checkpoints of a step whose params and states are sharded across ranks
// (Sharding). A checkpoint consists either of one shard file per rank and an index
// (runtime/checkpoint.h), or of whole values. A run with any number of ranks can load both kinds.
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
// All functions except WholeValues::session are collective: every rank must call them.

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

/// Saves this rank's shard of checkpoint `number` of the series `path`, and returns the digests of
/// the shards of all ranks, for SaveShardIndex. Either all ranks succeed, or all return the error
/// of the lowest rank that failed. If a rank is lost, the others return kRankLost. `collectives`
/// may be null if there is only one rank.
Result<std::vector<uint64_t>> SaveShards(
    const Runner& step, const RankValues& values, const std::string& path,
    int64_t number, const CheckpointBase& base, Collectives* collectives);

/// Writes all bytes of `leaf`, a param or state that is not sharded, to `bytes`.
using WholeSource =
    std::function<Status(const ValueInfo& leaf, std::span<std::byte> bytes)>;

/// Sets the params and states of `step` to the values that `source` provides on rank 0. A rank that
/// has only a shard of a value receives its shard, and other values are copied whole. `source` is
/// called only on rank 0. Uses a few times the memory of the largest value in addition to the
/// arena. Propagates errors of the source and of Runner::WriteBytes. Returns kRankLost if a rank is
/// lost.
Status ScatterValues(const RankValues& values, Collectives& collectives,
                     const WholeSource& source, Runner& step);

/// Gathers whole params and states on rank 0, in memory outside the arena. Rank 0 needs memory for
/// all values, and other ranks for the largest value.
class WholeValues {
 public:
  /// Allocates the values of `step`, which must be the step of a single rank. `backend` and
  /// `collectives` must outlive the result. Propagates errors of Session::Create.
  static Result<WholeValues> Make(const Graph& step, Backend& backend,
                                  Collectives& collectives);

  /// Returns a session whose program has these params and states and no ops. The
  /// result is null on all ranks but rank 0.
  Session* session() { return session_.get(); }

  /// Copies the params and states of `step` to session() on rank 0, with shards joined to whole
  /// values. Propagates errors of Runner::ReadBytes. Returns kRankLost if a rank is lost.
  Status Gather(const Runner& step);

  /// Sets the params and states of `step` on every rank to the values of session() on rank 0, as
  /// ScatterValues does. Propagates errors of Runner::ReadBytes and WriteBytes. Returns kRankLost
  /// if a rank is lost.
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
