#ifndef STOWAGE_TOOLS_TRAIN_RUN_H_
#define STOWAGE_TOOLS_TRAIN_RUN_H_

// The steps of a run: a batch, a learning rate, a loss, over and over, until the
// last one or until a signal asks to stop.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "nn/schedule.h"
#include "report/html.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tools/progress.h"
#include "tools/rank_run.h"
#include "tools/step_log.h"
#include "tools/stop_signals.h"
#include "tools/task.h"
#include "train/finite_guard.h"

namespace stowage::tools {

// How long and how fast to train.
struct RunSpec {
  int64_t steps = 0;  // of the whole run, which the schedule spans
  int64_t stop_at = 0;
  double steps_per_epoch = 1;
  LearningRateSchedule schedule;
  int64_t seed = 1;
  int64_t save_every = 0;        // 0: at the end alone
  int64_t eval_every = 0;        // likewise
  int64_t patience = 0;          // evaluations without a better one; 0: any
  bool saves_shards = false;     // each rank its own
  bool skips_nonfinite = false;  // else a value that is no number ends the run
  bool keeps_losses = false;     // for the page of the run, 16 bytes a step

  /// Whether the run evaluates behind `step`, which the last one always does.
  bool EvaluatesAt(int64_t step) const {
    return step == stop_at || (eval_every > 0 && step % eval_every == 0);
  }
};

// What the steps of a run came to.
struct RunFigures {
  std::optional<double> loss;    // of the last step that counts
  std::vector<PageLoss> losses;  // of all of them, if they are kept
  int64_t skipped = 0;
  std::optional<int64_t> heap_allocations = 0;
  int64_t steps = 0;
  int64_t bytes_sent = 0;  // to other ranks, by this one
};

class StepLoop {
 public:
  /// For steps from `first` on, by the runner of each batch's shape (Task::ShapeOf), of
  /// one session. `ahead`: how many steps are started before the loss
  /// of one is read, so that the device never waits. `log` has a row for each, if it is
  /// not null. All that is given must outlive this.
  StepLoop(std::vector<Runner*> train, Task& task, const RunSpec& run,
           int64_t first, int64_t ahead, const MemoryFigures& memory, bool json,
           RankRun& ranks, StepLog* log = nullptr);

  /// Takes steps up to `last`, or up to the one under way when a signal comes to any
  /// rank.
  /// Returns the last step that was taken. Error kNotFinite, naming the step, when
  /// its loss is no number, unless such steps are skipped, or too many were skipped one
  /// after the other; those of the runner.
  Result<int64_t> RunTo(int64_t last, const StopSignals& stop);
  /// The signal that ended it, on any rank; 0: none.
  int signal() const { return signal_; }

  const RunFigures& figures() const { return figures_; }

 private:
  using Clock = std::chrono::steady_clock;
  // A step that was started and whose loss has not been read.
  struct Started {
    size_t shape = 0;
    uint64_t number = 0;  // of that shape's runner
    double lr = 0;
    Clock::time_point start;
  };

  Started& Of(int64_t step) {
    return started_[static_cast<size_t>(step) % started_.size()];
  }
  Status Start(int64_t step);
  Result<float> ReadLoss(int64_t step);
  Result<bool> IsFiniteEverywhere(bool loss_is_finite);
  Status Settle(int64_t step, const Result<float>& loss);
  Result<bool> HasSkippedItself(int64_t step);
  Status NoteSkipped(int64_t step, const Result<float>& loss,
                     const std::string& why, std::string_view what);
  Status Skip(int64_t step, const Result<float>& loss);
  Status TakeSkipped(int64_t step, const Result<float>& loss);
  Status Show(int64_t step, float loss, bool skipped);

  const std::vector<Runner*> train_;  // by shape
  Task& task_;
  const RunSpec& run_;
  const int64_t ahead_;
  const MemoryFigures memory_;
  const bool json_;
  RankRun& ranks_;
  StepLog* const log_;
  const bool reads_step_;  // whether the step's number is an input
  const bool reads_seed_;  // of dropouts, and of an optimizer's roundings
  const bool may_skip_;    // whether steps skip their updates (LossScaling)
  const bool has_scale_;   // a dynamic one
  const bool has_norm_;    // of the gradients, which are clipped by it
  Progress progress_;
  int64_t next_;  // to be started
  int signal_ = 0;
  int64_t skipped_in_a_row_ = 0;
  std::array<Started, kStepsInFlight> started_;
  Clock::time_point end_;  // of the step before
  std::optional<FiniteGuard> guard_;
  RunFigures figures_;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TRAIN_RUN_H_
