#ifndef STOWAGE_TRAIN_RUN_CHECKPOINTS_H_
#define STOWAGE_TRAIN_RUN_CHECKPOINTS_H_

// The checkpoints of a run (train/run.h): begins a training, or resumes it if the file exists,
// and saves the newest values, the last few, and the best.
//
//   Result<RunCheckpoints> checkpoints =
//       RunCheckpoints::Claim("model.safetensors", {.keep_last = 3, .keep_best = true});
//   Result<RunStart> start = checkpoints->Begin(*training, /*seed=*/1);
//   Result<RunResult> result =
//       Run(*training, spec, {.data = data, .saver = &*checkpoints}, *start);
//
//   model.safetensors             the newest, replaced atomically by every save
//   model.step-400.safetensors    the last `keep_last`, if it is above 1; the newest of them
//   model.step-500.safetensors    has the content of model.safetensors
//   model.best.safetensors        the one of the lowest validation loss
//
// A run that is killed leaves the newest checkpoint whole. Values that are NaN or infinite
// are never saved. CheckpointSeries manages the files alone:
//
//   Result<CheckpointSeries> series =
//       CheckpointSeries::Claim("model.safetensors", {.keep_last = 3});
//   const auto write = [&](const OutputFile& file, const RunNotes& notes) {
//     return SaveCheckpoint(runner, file, step, notes);
//   };
//   Status saved = series->Save(step, notes, write);

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "runtime/checkpoint_file.h"
#include "train/evaluation.h"
#include "train/run.h"
#include "train/training.h"

namespace stowage {

struct SeriesOptions {
  int64_t keep_last = 1;
  bool keep_best = false;
};

class CheckpointSeries {
 public:
  /// Writes one checkpoint with these notes, for example by SaveCheckpoint.
  using WriteCheckpoint =
      std::function<Status(const OutputFile&, const RunNotes&)>;

  /// Claims `path`, and the path of the best if it is kept, for the lifetime of this.
  /// Errors: those of OutputFile::Claim; kInvalidArgument for a `keep_last` below 1.
  static Result<CheckpointSeries> Claim(const std::string& path,
                                        const SeriesOptions& options = {});

  /// Saves the newest, and removes this run's checkpoints before the last `keep_last`; files
  /// of other runs are never removed. Errors: those of `write`.
  Status Save(int64_t step, const RunNotes& notes,
              const WriteCheckpoint& write);

  /// Saves the best, and returns true, if `held_out_loss` is the lowest of this series. A NaN
  /// never is. Precondition: the best is kept.
  Result<bool> SaveIfBest(double held_out_loss, const RunNotes& notes,
                          const WriteCheckpoint& write);

  /// Saves after an evaluation: SaveIfBest if the best is kept and `held_out_loss` is given,
  /// then Save unless `best_alone`. In this order, a run that is killed between the two
  /// resumes before this step, and evaluates it again.
  Status Save(int64_t step, const RunNotes& notes, const WriteCheckpoint& write,
              std::optional<double> held_out_loss, bool best_alone);

  /// Continues the series of a run that is resumed: its best counts if it has these notes. If
  /// not, it will be replaced, and the result is a line that says so. Error: the best's file
  /// is no checkpoint.
  Result<std::string> Continue(const RunNotes& subject = {});

  const std::string& path() const { return newest_.path(); }
  /// Whether no other run can claim the newest (OutputFile::is_locked).
  bool is_locked() const { return newest_.is_locked(); }
  /// The step of the newest that this run has saved.
  std::optional<int64_t> last_step() const { return last_step_; }
  /// The lowest validation loss so far.
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

/// The paths of the best checkpoint of a series, and of the one of a step.
std::string BestPath(const std::string& path);
std::string StepPath(const std::string& path, int64_t step);

/// The name of the note that holds a run's EvaluationHistory.
inline constexpr std::string_view kEvaluationsNote = "evaluations";

/// The history in a checkpoint's notes; empty if there is none. Error kInvalidArgument for a
/// malformed note.
Result<EvaluationHistory> HistoryOf(const CheckpointInfo& checkpoint);

/// The notes of a run, with its history if it has evaluated.
RunNotes NotesWith(RunNotes notes, const EvaluationHistory& history);

class RunCheckpoints : public RunSaver {
 public:
  /// Claims the series of `path`. `notes` describe the run, for example its data. Errors:
  /// those of CheckpointSeries::Claim.
  static Result<RunCheckpoints> Claim(const std::string& path,
                                      const SeriesOptions& options = {},
                                      RunNotes notes = {});

  /// Loads the checkpoint, or initializes params and states by `seed` if there is none, and
  /// returns the steps done. Errors: those of LoadCheckpoint; kInvalidArgument, with the note,
  /// for the checkpoint of a run with other notes; kUnsupported for a rank that keeps only its
  /// block of a param (train/rank_checkpoints.h).
  Result<RunStart> Begin(Training& training, uint64_t seed);

  /// As Begin; if there is no checkpoint, changes nothing and returns absent.
  Result<std::optional<RunStart>> Resume(Training& training);

  Status Save(Training& training, int64_t step,
              const EvaluationHistory& history,
              std::optional<double> held_out_loss, bool best_alone) override;

 private:
  RunCheckpoints(CheckpointSeries series, RunNotes notes)
      : series_(std::move(series)), notes_(std::move(notes)) {}

  CheckpointSeries series_;
  RunNotes notes_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_RUN_CHECKPOINTS_H_
