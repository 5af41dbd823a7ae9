#ifndef STOWAGE_TRAIN_RUN_CHECKPOINTS_H_
#define STOWAGE_TRAIN_RUN_CHECKPOINTS_H_

// Manages the checkpoints of a run (train/run.h). RunCheckpoints starts a training, or resumes it
// if the checkpoint exists. It saves the newest checkpoint, the last few, and the best.
//
//   Result<RunCheckpoints> checkpoints =
//       RunCheckpoints::Claim("model.safetensors", {.keep_last = 3, .keep_best = true});
//   Result<RunStart> start = checkpoints->Begin(*training, /*seed=*/1);
//   Result<RunResult> result =
//       Run(*training, spec, {.data = data, .saver = &*checkpoints}, *start);
//
//   model.safetensors             the newest checkpoint, replaced atomically by every save
//   model.step-400.safetensors    the last `keep_last` checkpoints, if it is above 1; the newest
//   model.step-500.safetensors    of them has the same content as model.safetensors
//   model.best.safetensors        the checkpoint with the lowest validation loss
//
// If a run is killed, the newest checkpoint is still complete, because files are replaced
// atomically. Values that are NaN or infinite are never saved. CheckpointSeries manages only the
// files:
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
  /// Writes one checkpoint with these notes to the file, for example by calling SaveCheckpoint
  /// (runtime/checkpoint.h).
  using WriteCheckpoint =
      std::function<Status(const OutputFile&, const RunNotes&)>;

  /// Claims `path` and, if the best checkpoint is kept, its path for the lifetime of the result
  /// (OutputFile in base/files.h). Returns kInvalidArgument if `keep_last` is below 1. Propagates
  /// errors of OutputFile::Claim.
  static Result<CheckpointSeries> Claim(const std::string& path,
                                        const SeriesOptions& options = {});

  /// Saves the newest checkpoint, and a checkpoint of `step` if `keep_last` is above 1. Then
  /// removes older checkpoints of steps, except for the last `keep_last`. Only checkpoints that
  /// this object has saved are removed, so the files of other runs and of the run before a
  /// resumption remain. An existing checkpoint of the same step is replaced. Propagates errors of
  /// `write` and of OutputFile::Claim.
  Status Save(int64_t step, const RunNotes& notes,
              const WriteCheckpoint& write);

  /// Saves the best checkpoint and returns true if `held_out_loss`, the validation loss, is finite
  /// and the lowest of this series. Otherwise saves nothing and returns false. Requires
  /// SeriesOptions::keep_best. Propagates errors of `write`.
  Result<bool> SaveIfBest(double held_out_loss, const RunNotes& notes,
                          const WriteCheckpoint& write);

  /// Saves after an evaluation. Calls SaveIfBest if the best checkpoint is kept and `held_out_loss`
  /// is given, and then Save unless `best_alone` is true. If SaveIfBest fails, Save is still
  /// called, and the error is returned. Because of this order, a run that is killed between the two
  /// calls resumes from an earlier step and repeats the evaluation.
  Status Save(int64_t step, const RunNotes& notes, const WriteCheckpoint& write,
              std::optional<double> held_out_loss, bool best_alone);

  /// Continues the series of a run that is resumed. If the notes of the existing best checkpoint do
  /// not contradict `subject`, its loss is the lowest so far, and the result is "". Otherwise the
  /// first SaveIfBest will replace it, and the result is a line that says so. Notes that only one
  /// of the two has do not contradict. Returns an error if the file of the best checkpoint is not a
  /// checkpoint.
  Result<std::string> Continue(const RunNotes& subject = {});

  const std::string& path() const { return newest_.path(); }
  /// Returns whether no other run can claim the newest checkpoint (OutputFile::is_locked).
  bool is_locked() const { return newest_.is_locked(); }
  /// Returns the step of the newest checkpoint that this run has saved.
  std::optional<int64_t> last_step() const { return last_step_; }
  /// Returns the lowest validation loss so far.
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

/// BestPath returns the path of the best checkpoint of the series `path`. StepPath returns the path
/// of its checkpoint of `step`.
std::string BestPath(const std::string& path);
std::string StepPath(const std::string& path, int64_t step);

/// The name of the note that holds a run's EvaluationHistory.
inline constexpr std::string_view kEvaluationsNote = "evaluations";

/// Returns the history in a checkpoint's notes, or an empty one if they have none. Returns
/// kInvalidArgument if the note is malformed.
Result<EvaluationHistory> HistoryOf(const CheckpointInfo& checkpoint);

/// Returns `notes` with a note that holds `history`, unless the history is empty.
RunNotes NotesWith(RunNotes notes, const EvaluationHistory& history);

class RunCheckpoints : public RunSaver {
 public:
  /// Claims the series of `path`. `notes` describe the run, for example its data. Propagates errors
  /// of CheckpointSeries::Claim.
  static Result<RunCheckpoints> Claim(const std::string& path,
                                      const SeriesOptions& options = {},
                                      RunNotes notes = {});

  /// Initializes params and states with `seed`, and then loads the newest checkpoint if it exists.
  /// Returns the progress of the run. Propagates errors of LoadCheckpoint. Returns kInvalidArgument
  /// if the newest or the best checkpoint has another value of a note that was given to Claim.
  /// Returns kUnsupported if params are sharded across ranks (Sharding::kWeights);
  /// train/rank_checkpoints.h saves and loads them.
  Result<RunStart> Begin(Training& training, uint64_t seed);

  /// Loads the newest checkpoint, as Begin does. If it does not exist, changes nothing and returns
  /// nullopt.
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
