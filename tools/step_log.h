#ifndef STOWAGE_TOOLS_STEP_LOG_H_
#define STOWAGE_TOOLS_STEP_LOG_H_

// The log of a run, a row for each step, written out as soon as it is known.
//
//   STOWAGE_ASSIGN_OR_RETURN(StepLog log, StepLog::Open("run.csv"));
//   STOWAGE_RETURN_IF_ERROR(log.Begin(0));
//   log.Add(figures, memory, /*is_evaluated=*/false);
//
// A file is CSV:
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
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "base/result.h"
#include "report/tensorboard.h"
#include "tools/progress.h"

namespace stowage::tools {

class StepLog {
 public:
  /// Claims the file, or makes the folder. Errors: those of OutputFile::Claim; kIo for a
  /// folder that cannot be made.
  static Result<StepLog> Open(const std::string& path);

  /// Begins behind step `done`: with a new log where that is 0, else behind the rows of
  /// the log that is there up to that step; later rows, which the run takes again, go.
  /// Errors: kIo; kInvalidArgument for a file that is no log.
  Status Begin(int64_t done);

  /// Adds the row of a step, which waits for an evaluation if there will be one.
  void Add(const StepFigures& figures, const MemoryFigures& memory,
           bool is_evaluated);
  /// Ends the row that waits; nothing if none does.
  void AddEvaluation(std::optional<double> validation_loss);

  /// Error kIo once a row could not be written: the run goes on without the rest.
  Status status() const;

 private:
  explicit StepLog(std::string path) : path_(std::move(path)) {}

  Status BeginRows(int64_t done);
  Status BeginEvents(int64_t done);
  void AddScalars(int64_t step, const std::vector<EventScalar>& scalars);

  std::string path_;                // as it was given
  std::optional<OutputFile> file_;  // absent for a folder
  std::ofstream out_;
  std::optional<int64_t> waits_;  // the step whose row has no end yet
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_STEP_LOG_H_
