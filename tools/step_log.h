#ifndef STOWAGE_TOOLS_STEP_LOG_H_
#define STOWAGE_TOOLS_STEP_LOG_H_

// The log of a run as CSV, a row for each step, written out as soon as it is known:
//
//   step,epoch,loss,lr,grad_norm,step_seconds,tokens_per_second,arena_bytes,budget_bytes,validation_loss
//
// What a step does not have, or is not finite, is empty. A resumed run appends its steps.

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/output_file.h"
#include "base/result.h"
#include "tools/progress.h"

namespace stowage::tools {

class StepLog {
 public:
  /// Claims the file. Errors: those of OutputFile::Claim.
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
  explicit StepLog(OutputFile file) : file_(std::move(file)) {}

  OutputFile file_;
  std::ofstream out_;
  bool waits_ = false;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_STEP_LOG_H_
