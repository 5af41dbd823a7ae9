#ifndef STOWAGE_TRAIN_RUN_LOG_H_
#define STOWAGE_TRAIN_RUN_LOG_H_

// Logs a run (train/run.h), a row for each step, written at once: as CSV, or for TensorBoard.
//
//   STOWAGE_ASSIGN_OR_RETURN(RunLog log, RunLog::Open("run.csv"));
//   STOWAGE_RETURN_IF_ERROR(
//       log.Begin(start.done, spec, {.arena = training.session().arena_bytes()}));
//   Result<RunResult> result =
//       Run(training, spec, {.data = data, .observer = &log}, start);
//   log.End();
//   if (!log.status().ok()) Print(log.status().error().message);
//
// A program's own observer forwards its calls. A file is CSV with these columns; missing and
// non-finite values are empty, and a resumed run appends:
//
//   step,epoch,loss,lr,grad_norm,step_seconds,tokens_per_second,arena_bytes,budget_bytes,validation_loss
//
// A folder, which exists or whose name ends in "/", gets an event file of TensorBoard
// (report/tensorboard.h) with scalars of these names. A resumed run adds a file, which
// supersedes later steps of the earlier ones.

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

  /// Claims the file, or creates the folder. Errors: those of OutputFile::Claim; kIo if the
  /// folder cannot be created.
  static Result<RunLog> Open(const std::string& path);

  /// Begins after step `done` of `run`: with a new log if that is 0, else after the row of that
  /// step; later rows, whose steps the run takes again, are removed. Errors: kIo;
  /// kInvalidArgument for a file that is no log.
  Status Begin(int64_t done, const RunSpec& run, const Memory& memory);

  /// Adds the row of a step; it stays open until its evaluation if one is due.
  void OnStep(const StepFigures& figures) override;
  void OnSkipped(const StepFigures& figures, const std::string& /*why*/,
                 std::string_view /*outcome*/) override {
    OnStep(figures);
  }
  /// Ends the open row.
  void OnEvaluation(int64_t step, const std::optional<Evaluation>& evaluation,
                    bool counts) override;
  /// Ends a row that is open because a stop omitted its evaluation.
  void End() { EndRow(std::nullopt); }

  /// Error kIo if a row could not be written: the run continues without the rest of the log.
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
  std::optional<int64_t> waits_;  // the step of the open row
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_RUN_LOG_H_
