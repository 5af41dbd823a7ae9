#ifndef STOWAGE_TRAIN_RUN_CHECKPOINTS_H_
#define STOWAGE_TRAIN_RUN_CHECKPOINTS_H_

// The checkpoints of a run (train/run.h): begins a training, or resumes it where the file
// is there already, and saves the newest values and the best ones.
//
//   Result<RunCheckpoints> checkpoints = RunCheckpoints::Claim("net.safetensors");
//   Result<RunStart> start = checkpoints->Begin(*training, /*seed=*/1);
//   Result<RunResult> result =
//       Run(*training, spec, {.data = data, .saver = &*checkpoints}, *start);

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "runtime/checkpoint_file.h"
#include "train/checkpoint_series.h"
#include "train/finite_guard.h"
#include "train/run.h"
#include "train/training.h"

namespace stowage {

/// The note of a checkpoint that holds its run's EvaluationHistory.
inline constexpr std::string_view kEvaluationsNote = "evaluations";

/// The history that a checkpoint notes; an empty one if it notes none. Error
/// kInvalidArgument for a note of another form.
Result<EvaluationHistory> HistoryOf(const CheckpointInfo& checkpoint);

/// The notes of a run, with its history where it has evaluated.
RunNotes NotesWith(RunNotes notes, const EvaluationHistory& history);

class RunCheckpoints : public RunSaver {
 public:
  /// Claims `path`, where the newest checkpoint will be. `notes` describe the run, for
  /// example its data. Errors: those of CheckpointSeries::Claim.
  static Result<RunCheckpoints> Claim(const std::string& path,
                                      const SeriesOptions& options = {},
                                      RunNotes notes = {});

  /// Gives params and states the values of the checkpoint, or initializes them by `seed`
  /// if there is none, and returns where the run begins. Errors: those of LoadCheckpoint;
  /// kInvalidArgument, naming the note, for the checkpoint of a run with other notes;
  /// kUnsupported for a rank that keeps only its block of a param (Sharding).
  Result<RunStart> Begin(Training& training, uint64_t seed);

  /// As Begin, but leaves params and states as they are if there is no checkpoint: absent
  /// then.
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
