#ifndef STOWAGE_TRAIN_CHECKPOINT_SERIES_H_
#define STOWAGE_TRAIN_CHECKPOINT_SERIES_H_

// The checkpoints of a long run. The newest is always at the path that was asked
// for; beside it are the last few, if they are wanted, and the best:
//
//   model.safetensors             the newest, replaced whole with every save
//   model.step-400.safetensors    the last `keep_last`, if more than one is kept;
//   model.step-500.safetensors    of one content with the newest
//   model.best.safetensors        of the lowest held-out loss
//
// So whenever the run is killed, the newest checkpoint is whole and of the save
// before. Values that are no numbers are never saved.
//
//   Result<CheckpointSeries> series =
//       CheckpointSeries::Claim("model.safetensors", {.keep_last = 3});
//   const auto write = [&](const OutputFile& file, const RunNotes& notes) {
//     return SaveCheckpoint(runner, file, step, notes);
//   };
//   Status saved = series->Save(step, notes, write);
//   Result<bool> is_best = series->SaveIfBest(held_out_loss, notes, write);

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/files.h"
#include "base/result.h"
#include "ir/graph.h"
#include "runtime/backend.h"
#include "runtime/checkpoint_file.h"
#include "runtime/session.h"
#include "runtime/values.h"

namespace stowage {

struct SeriesOptions {
  int64_t keep_last = 1;
  bool keep_best = false;
};

class CheckpointSeries {
 public:
  /// Writes one checkpoint with these notes, as SaveCheckpoint or SaveShardIndex does.
  using WriteCheckpoint =
      std::function<Status(const OutputFile&, const RunNotes&)>;

  /// Claims the newest's path, and the best's if one is kept, until this is gone.
  /// Errors: those of OutputFile::Claim; kInvalidArgument for a `keep_last` below
  /// 1.
  static Result<CheckpointSeries> Claim(const std::string& path,
                                        const SeriesOptions& options = {});

  /// Saves the newest. Of those before, this run's own, `keep_last` stay; files
  /// of other runs are never removed. Errors: those of `write`.
  Status Save(int64_t step, const RunNotes& notes,
              const WriteCheckpoint& write);

  /// Saves the best if `held_out_loss` is the lowest of this series, which says so.
  /// A loss that is no number never is. Precondition: the best is kept.
  Result<bool> SaveIfBest(double held_out_loss, const RunNotes& notes,
                          const WriteCheckpoint& write);

  /// Both, behind an evaluation: SaveIfBest if a best is kept and `held_out_loss` given,
  /// then Save unless `best_alone`. In this order: a run that is killed between the two
  /// resumes from the newest, and evaluates this step again.
  Status Save(int64_t step, const RunNotes& notes, const WriteCheckpoint& write,
              std::optional<double> held_out_loss, bool best_alone);

  /// Takes up the series that a run has left which is now resumed: its best counts, if it
  /// has these notes. If not, it will be replaced, and the result is a line that says so.
  /// Error: a best that is no checkpoint.
  Result<std::string> Continue(const RunNotes& subject = {});

  const std::string& path() const { return newest_.path(); }
  /// Whether no other run can claim the newest (OutputFile::is_locked).
  bool is_locked() const { return newest_.is_locked(); }
  /// Of the newest that this run has saved, or none.
  std::optional<int64_t> last_step() const { return last_step_; }
  /// The lowest held-out loss so far.
  std::optional<double> best_loss() const { return best_loss_; }

 private:
  explicit CheckpointSeries(OutputFile newest) : newest_(std::move(newest)) {}
  Status KeepStep(int64_t step, const RunNotes& notes,
                  const WriteCheckpoint& write);

  OutputFile newest_;
  std::optional<OutputFile> best_;
  int64_t keep_last_ = 1;
  std::deque<std::string> steps_;  // paths, oldest first
  std::optional<int64_t> last_step_;
  std::optional<double> best_loss_;
};

/// Where the best of a series is, and the one of a step.
std::string BestPath(const std::string& path);
std::string StepPath(const std::string& path, int64_t step);

// The shards of a checkpoint, saved by all ranks at a time, who learn of each other how it
// went: all of them have saved, or all have the same error.
//
//   Result<std::vector<uint64_t>> shards =
//       SaveShards(step, values, "run.safetensors", 400, {}, collectives);
//   if (shards.ok() && values.rank == 0) {
//     saved = SaveShardIndex(step, values, *shards, file, "run.safetensors", 400);
//   }

/// Saves this rank's shard, and gives what SaveShardIndex asks for: the digests of those
/// of all ranks, each of which must call this. `collectives` may be null where there is
/// one rank. Errors: that of the first rank that has one; kRankLost when a rank was lost.
Result<std::vector<uint64_t>> SaveShards(
    const Runner& step, const RankValues& values, const std::string& path,
    int64_t number, const CheckpointBase& base, Collectives* collectives);

// Params and states whole, where the ranks of a step split them (Sharding): to load and
// to save them as one rank alone would, so that what N ranks saved goes on with M.
//
//   Result<WholeValues> whole =
//       WholeValues::Make(step_of_one_rank, backend, collectives);
//   if (Session* session = whole->session()) session->Initialize(seed);
//   Status given = whole->Scatter(step);  // every rank its blocks
//   ...
//   Status taken = whole->Gather(step);
//   if (Session* session = whole->session()) {
//     SaveCheckpoint(session->front(), file, done);
//   }
//
// On rank 0 they take memory beside the arena, as much as all params and states have
// bytes, while this is there; on the others as much as the largest.

/// Gives a whole param or state, in bytes of its size.
using WholeSource =
    std::function<Status(const ValueInfo& leaf, std::span<std::byte> bytes)>;

/// Gives `step` of all ranks, each of which must call this, the params and states that
/// rank 0's `source` says: the whole, or a block of it. One at a time lies in memory
/// beside the arenas. Errors: those of the source and of Runner::WriteBytes; kRankLost when
/// a rank was lost.
Status ScatterValues(const RankValues& values, Collectives& collectives,
                     const WholeSource& source, Runner& step);

class WholeValues {
 public:
  /// Those of a step that one rank would take. Backend and collectives must outlive
  /// this. Errors: those of Session::Create.
  static Result<WholeValues> Make(const Graph& step, Backend& backend,
                                  Collectives& collectives);

  /// On rank 0, over a program that has these params and states, and does nothing; null
  /// on the others.
  Session* session() { return session_.get(); }

  /// Gathers them from `step` of all ranks, each of which must call this. Errors: those
  /// of Runner::ReadBytes; kRankLost when a rank was lost.
  Status Gather(const Runner& step);

  /// Gives `step` of all ranks what rank 0 has here: the whole, or a block of it. Each
  /// rank must call this. Errors as above.
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

#endif  // STOWAGE_TRAIN_CHECKPOINT_SERIES_H_
