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

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/output_file.h"
#include "base/result.h"
#include "runtime/checkpoint_info.h"

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

  /// Takes up the series that a run has left which is now resumed: its best counts.
  /// Error: a best that is no checkpoint.
  Status Continue();

  const std::string& path() const { return newest_.path(); }
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

}  // namespace stowage

#endif  // STOWAGE_TRAIN_CHECKPOINT_SERIES_H_
