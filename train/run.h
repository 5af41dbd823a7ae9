#ifndef STOWAGE_TRAIN_RUN_H_
#define STOWAGE_TRAIN_RUN_H_

// Runs a training from its first step to its last: batches, learning rates by a schedule,
// evaluations, early stopping, checkpoints. The command, Python and C++ programs take
// their steps by it.
//
//   class Digits : public RunData {
//    public:
//     Status WriteBatch(Runner& step, int64_t number) override;
//     bool has_held_out() const override { return true; }
//     Result<std::optional<Evaluation>> Evaluate(Training& training) override;
//   };
//
//   Digits data;
//   Result<RunCheckpoints> checkpoints =
//       RunCheckpoints::Claim("digits.safetensors", {.keep_best = true});
//   Result<RunStart> start = checkpoints->Begin(*training, /*seed=*/1);
//   Result<RunResult> result =
//       Run(*training,
//           {.steps = 1000,
//            .schedule = {.peak = 3e-3, .warmup = 50, .final_factor = 0.1},
//            .save_every = 100, .eval_every = 100, .patience = 3},
//           {.data = data, .saver = &*checkpoints}, *start);
//   if (result.ok()) Print(result->evaluation->loss);
//
// The same program, called again, goes on from the checkpoint, with the bits of a run
// that was never interrupted. Clipping, weight decay, loss scaling and gradient
// accumulation are of the step (TrainOptions), not of the run.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "nn/schedule.h"
#include "runtime/session.h"
#include "train/evaluation.h"
#include "train/training.h"

namespace stowage {

/// The length of a run, its learning rate, and when it is evaluated and saved.
struct RunSpec {
  int64_t steps = 0;    // of the whole run, which the schedule spans
  int64_t stop_at = 0;  // the last step to take now; 0: steps
  double steps_per_epoch = 1;
  LearningRateSchedule schedule = {};
  /// The learning rate of each step, asked for once before it, in place of `schedule`;
  /// empty: the schedule's.
  std::function<double(int64_t step)> rate = {};
  int64_t seed = 1;  // of dropouts and of stochastic rounding
  /// Steps between checkpoints, and between evaluations that count for `patience`; 0:
  /// behind the last step alone, where both are always due. What is held out is evaluated
  /// before each checkpoint, too, which may be the best.
  int64_t save_every = 0;
  int64_t eval_every = 0;
  /// Stops after so many evaluations without a lower loss; 0: never.
  int64_t patience = 0;
  /// Undoes steps that make NaN or infinity (FiniteGuard); else they end the run.
  bool skips_nonfinite = false;

  int64_t last_step() const { return stop_at > 0 ? stop_at : steps; }
  double RateAt(int64_t step) const {
    return rate ? rate(step) : schedule.At(step, steps);
  }
  bool EvaluatesAt(int64_t step) const {
    return step == last_step() || (eval_every > 0 && step % eval_every == 0);
  }
};

/// The loss of what is held out, by the averaged weights where the step keeps averages
/// (TrainOptions::ema), and of a classifier the share of right answers, 0..1.
struct Evaluation {
  double loss = 0;
  std::optional<double> accuracy = {};
  /// Other metrics that were asked for, by name (train/evaluation.h).
  std::vector<std::pair<std::string_view, double>> metrics = {};
};

/// One step.
struct StepFigures {
  int64_t step = 0;  // counts from 1
  double epoch = 0;  // passes over the training data, this step included
  double loss = 0;   // NaN of a skipped step without one
  double lr = 0;
  std::optional<double> grad_norm = {};   // where gradients are clipped by it
  std::optional<double> loss_scale = {};  // where it is dynamic
  double seconds = 0;
  int64_t tokens = 0;
  double tokens_per_second = 0;
};

/// All steps of a run.
struct RunFigures {
  std::optional<double> loss;  // of the last step that was not skipped
  int64_t steps = 0;
  int64_t skipped = 0;
  /// During steps; absent if the observer does not count them.
  std::optional<int64_t> heap_allocations = 0;
  int64_t bytes_sent = 0;  // to other ranks, by this one, during steps
};

/// The examples of a run.
class RunData {
 public:
  virtual ~RunData() = default;

  /// The program that takes the batch of `step`: 0 for the training step, else an index
  /// into TrainingSpec::shapes, counted from 1.
  virtual size_t ShapeOf(int64_t /*step*/) { return 0; }
  /// Writes the batch of step `number`, a function of that number alone, to the inputs
  /// of `step` other than "lr", "step" and "seed".
  virtual Status WriteBatch(Runner& step, int64_t number) = 0;
  /// Tokens, or examples, of a batch of that shape; 0: not known.
  virtual int64_t tokens_per_step(size_t /*shape*/) const { return 0; }
  /// Whether Evaluate has anything to evaluate.
  virtual bool has_held_out() const { return false; }
  /// Evaluates what is held out. Absent if a stop interrupts it.
  virtual Result<std::optional<Evaluation>> Evaluate(Training& /*training*/) {
    return std::optional<Evaluation>();
  }
};

/// What a run reports. Every function has a default that does nothing unless it says
/// otherwise.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  virtual void OnStep(const StepFigures& /*figures*/) {}
  /// A step without effect: `why`, with `outcome` for the run.
  virtual void OnSkipped(const StepFigures& /*figures*/,
                         const std::string& /*why*/,
                         std::string_view /*outcome*/) {}
  /// After `step`; `counts` if the evaluation is one of those of eval_every, by which
  /// the run may stop early.
  virtual void OnEvaluation(int64_t /*step*/,
                            const std::optional<Evaluation>& /*evaluation*/,
                            bool /*counts*/) {}
  /// A checkpoint before the last step was not written: returns OK to go on without it.
  /// The default ends the run.
  virtual Status OnUnsaved(const Error& error) { return error; }
  /// Asked before every step: a number other than 0, such as that of a signal, ends the
  /// run behind the steps that were started.
  virtual int StopAsked() { return 0; }
  /// Whether OnStep reads params or states: then no step begins before it has returned,
  /// also on a device that works beside the host.
  virtual bool reads_values() const { return false; }
  /// Allocations of the process so far, if they are counted.
  virtual std::optional<int64_t> HeapAllocations() { return std::nullopt; }
};

/// Where the checkpoints of a run are saved.
class RunSaver {
 public:
  virtual ~RunSaver() = default;

  /// Saves the values behind `step`: the newest, unless `best_alone`, and the best, if
  /// `held_out_loss` is given and the lowest. Error kNotFinite: a value is NaN or
  /// infinite, and nothing is saved.
  virtual Status Save(Training& training, int64_t step,
                      const EvaluationHistory& history,
                      std::optional<double> held_out_loss, bool best_alone) = 0;
};

/// The other ranks of a run.
class RunPeers {
 public:
  virtual ~RunPeers() = default;

  /// The lowest rank's number that is not 0, the same at all; 0 if there is none. Every
  /// rank must call it equally often. Error kRankLost.
  virtual Result<int> AnyOf(int own) = 0;
  virtual int64_t bytes_sent() const = 0;
};

/// All that takes part in a run; what is null is left out. Must outlive the run.
struct RunParts {
  RunData& data;
  RunObserver* observer = nullptr;
  RunSaver* saver = nullptr;
  RunPeers* peers = nullptr;
};

/// Steps and evaluations before those of a run that goes on.
struct RunStart {
  int64_t done = 0;
  EvaluationHistory history = {};
};

struct RunResult {
  int64_t last_step = 0;
  int stopped = 0;           // by StopAsked
  bool stops_early = false;  // by its patience
  std::optional<Evaluation> evaluation = {};
  EvaluationHistory history = {};
  RunFigures figures = {};
  /// Of the checkpoint behind the last step: the run is complete without it.
  Status saved = {};
};

/// Evaluates after `step`, with the averaged weights (train/state_backup.h) where the
/// step keeps averages. Error kNotFinite if the loss is NaN or infinite; those of the
/// data.
Result<std::optional<Evaluation>> EvaluateRun(Training& training, RunData& data,
                                              int64_t step);

/// Takes the steps behind `start` up to spec.last_step(). Params and states must have
/// values. Errors: kInvalidArgument for steps out of order, and for evaluations without
/// anything held out; kNotFinite, naming the step, if its loss is NaN or infinite and such
/// steps are not skipped, or if 10 steps in a row were skipped (50, if each lowers a
/// dynamic loss scale); those of the runner and the parts.
Result<RunResult> Run(Training& training, const RunSpec& spec,
                      const RunParts& parts, const RunStart& start = {});

}  // namespace stowage

#endif  // STOWAGE_TRAIN_RUN_H_
