#ifndef STOWAGE_TRAIN_RUN_LOG_H_
#define STOWAGE_TRAIN_RUN_LOG_H_

// Logs a run (train/run.h) as CSV or for TensorBoard. Each step is a row of the log. A row is
// flushed when it is complete.
//
//   STOWAGE_ASSIGN_OR_RETURN(RunLog log, RunLog::Open("run.csv"));
//   STOWAGE_RETURN_IF_ERROR(
//       log.Begin(start.done, spec, {.arena = training.session().arena_bytes()}));
//   Result<RunResult> result =
//       Run(training, spec, {.data = data, .observer = &log}, start);
//   log.End();
//   if (!log.status().ok()) Print(log.status().error().message);
//
// A program that has its own RunObserver can call the log's functions from it. If the path is not a
// folder, the log is a CSV file with the columns below. Missing and non-finite values are empty. A
// resumed run appends to the file.
//
//   step,epoch,loss,lr,grad_norm,step_seconds,tokens_per_second,arena_bytes,budget_bytes,
//   validation_loss
//
// If the path is a folder that exists, or ends in "/", the log is an event file of TensorBoard
// (report/tensorboard.h) in the folder, with scalars of the same names. A resumed run adds a file.
// From its first step on, it replaces the steps in earlier files.

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

  /// Claims the file, or creates the folder. Propagates errors of OutputFile::Claim. Returns kIo if
  /// the folder cannot be created or written to.
  static Result<RunLog> Open(const std::string& path);

  /// Starts the log of `run` after step `done`. If `done` is 0, the log is new, and replaces the
  /// content of an existing file. Otherwise the log continues after the row of step `done`. Later
  /// rows are removed, since the run repeats their steps. Returns kIo if reading or writing fails.
  /// Returns kInvalidArgument if `done` is above 0 and the file is not empty and not a log.
  Status Begin(int64_t done, const RunSpec& run, const Memory& memory);

  /// Adds the row of a step. If an evaluation is due after the step, the row is completed after the
  /// evaluation.
  void OnStep(const StepFigures& figures) override;
  void OnSkipped(const StepFigures& figures, const std::string& /*why*/,
                 std::string_view /*outcome*/) override {
    OnStep(figures);
  }
  /// Completes the open row.
  void OnEvaluation(int64_t step, const std::optional<Evaluation>& evaluation,
                    bool counts) override;
  /// Completes the last row if a stop prevented its evaluation. Call it after Run.
  void End() { EndRow(std::nullopt); }

  /// Returns kIo if a row could not be written. A write error does not end the run, but the rows
  /// after it are lost.
  Status status() const;

 private:
  explicit RunLog(std::string path) : path_(std::move(path)) {}

  void EndRow(std::optional<double> validation_loss);
  Status BeginRows(int64_t done);
  Status BeginEvents(int64_t done);
  void AddScalars(int64_t step, const std::vector<EventScalar>& scalars);

  std::string path_;  // as passed to Open
  RunSpec run_;
  Memory memory_;
  std::optional<OutputFile> file_;  // absent if the log is a folder
  std::ofstream out_;
  std::optional<int64_t> waits_;  // step of the open row
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_RUN_LOG_H_
