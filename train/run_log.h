#ifndef STOWAGE_TRAIN_RUN_LOG_H_
#define STOWAGE_TRAIN_RUN_LOG_H_

// Logs a run (train/run.h), a row for each step, written as soon as it is known: as CSV, or
// for TensorBoard.
//
//   STOWAGE_ASSIGN_OR_RETURN(RunLog log, RunLog::Open("run.csv"));
//   STOWAGE_RETURN_IF_ERROR(
//       log.Begin(start.done, spec, {.arena = training.session().arena_bytes()}));
//   Result<RunResult> result =
//       Run(training, spec, {.data = data, .observer = &log}, start);
//   log.End();
//   if (!log.status().ok()) Print(log.status().error().message);
//
// A program's own observer forwards its calls. A file is CSV:
//
//   step,epoch,loss,lr,grad_norm,step_seconds,tokens_per_second,arena_bytes,budget_bytes,validation_loss
//
// What a step does not have, or is not finite, is empty. A resumed run appends its steps.
//
// A folder, which is there or whose name ends in "/", gets an event file of TensorBoard
// (report/tensorboard.h) with scalars of these names. A resumed run adds a file of its own,
// and what the earlier ones have of later steps does not count.

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "base/result.h"
#include "report/tensorboard.h"
#include "train/run.h"

namespace stowage {

class RunLog : public RunObserver {
 public:
  struct Memory {
    Bytes arena = 0;
    std::optional<Bytes> budget = {};
  };

  /// Claims the file, or makes the folder. Errors: those of OutputFile::Claim; kIo for a
  /// folder that cannot be made.
  static Result<RunLog> Open(const std::string& path);

  /// Begins behind step `done` of `run`: with a new log where that is 0, else behind the rows of
  /// the log that is there up to that step; later rows, which the run takes again, go.
  /// Errors: kIo; kInvalidArgument for a file that is no log.
  Status Begin(int64_t done, const RunSpec& run, const Memory& memory);

  /// Adds the row of a step, which waits for its evaluation if one is due.
  void OnStep(const StepFigures& figures) override;
  void OnSkipped(const StepFigures& figures, const std::string& /*why*/,
                 std::string_view /*outcome*/) override {
    OnStep(figures);
  }
  /// Ends the row that waits.
  void OnEvaluation(int64_t step, const std::optional<Evaluation>& evaluation,
                    bool counts) override;
  /// Ends the row of a step whose evaluation a stop has left out; nothing if none waits.
  void End() { EndRow(std::nullopt); }

  /// Error kIo once a row could not be written: the run goes on without the rest.
  Status status() const;

 private:
  explicit RunLog(std::string path) : path_(std::move(path)) {}

  void EndRow(std::optional<double> validation_loss);
  Status BeginRows(int64_t done);
  Status BeginEvents(int64_t done);
  void AddScalars(int64_t step, const std::vector<EventScalar>& scalars);

  std::string path_;  // as it was given
  RunSpec run_;
  Memory memory_;
  std::optional<OutputFile> file_;  // absent for a folder
  std::ofstream out_;
  std::optional<int64_t> waits_;  // the step whose row has no end yet
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_RUN_LOG_H_
