#ifndef STOWAGE_TRAIN_RUN_H_
#define STOWAGE_TRAIN_RUN_H_

// Runs a training from its first step to its last: batches, learning rates by a schedule,
// evaluations, early stopping, checkpoints. The command, Python and C++ programs share it.
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
// The same program, called again, continues from the checkpoint, and gets the bits of an
// uninterrupted run. Clipping, weight decay, loss scaling and gradient accumulation belong to
// the step (TrainOptions), not to the run.

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
  /// The value at each step of an input of a ParamGroup, such as "lr:backbone"; empty: the
  /// groups have none.
  std::function<double(std::string_view input, int64_t step)> group_input = {};
  int64_t seed = 1;  // of dropout and stochastic rounding
  /// Steps between checkpoints, and between evaluations that count for `patience`; 0: only
  /// after the last step, where both are always due. The validation set is also evaluated
  /// before each checkpoint, which may be the best.
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

/// The result on the validation set, by the averaged weights if the step keeps averages
/// (TrainOptions::ema).
struct Evaluation {
  double loss = 0;
  std::optional<double> accuracy = {};  // of a classifier, 0 to 1
  /// Other metrics, by name (train/evaluation.h).
  std::vector<std::pair<std::string_view, double>> metrics = {};
};

/// One step.
struct StepFigures {
  int64_t step = 0;  // counts from 1
  double epoch = 0;  // passes over the training data, this step included
  double loss = 0;   // NaN if a skipped step has none
  double lr = 0;
  std::optional<double> grad_norm = {};   // if gradients are clipped by norm
  std::optional<double> loss_scale = {};  // if it is dynamic
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
  /// Tokens or examples in a batch of that shape; 0: unknown.
  virtual int64_t tokens_per_step(size_t /*shape*/) const { return 0; }
  /// Whether there is a validation set.
  virtual bool has_held_out() const { return false; }
  /// Evaluates the validation set. Absent if a stop interrupts it.
  virtual Result<std::optional<Evaluation>> Evaluate(Training& /*training*/) {
    return std::optional<Evaluation>();
  }
};

/// Receives the events of a run. By default, functions do nothing unless documented
/// otherwise.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  virtual void OnStep(const StepFigures& /*figures*/) {}
  /// A step without effect: `why`, with `outcome` for the run.
  virtual void OnSkipped(const StepFigures& /*figures*/,
                         const std::string& /*why*/,
                         std::string_view /*outcome*/) {}
  /// After `step`; `counts` if the evaluation is one of eval_every's, by which the run may stop
  /// early.
  virtual void OnEvaluation(int64_t /*step*/,
                            const std::optional<Evaluation>& /*evaluation*/,
                            bool /*counts*/) {}
  /// A checkpoint before the last step was not written: returns OK to continue without it, or
  /// an error to end the run. The default returns `error`.
  virtual Status OnUnsaved(const Error& error) { return error; }
  /// Called before every step: a number other than 0, such as a signal's, ends the run after
  /// the steps that were started.
  virtual int StopAsked() { return 0; }
  /// Whether OnStep reads params or states: then no step begins before it has returned, on
  /// asynchronous devices too.
  virtual bool reads_values() const { return false; }
  /// The number of heap allocations of the process, if they are counted.
  virtual std::optional<int64_t> HeapAllocations() { return std::nullopt; }
};

/// Saves the checkpoints of a run.
class RunSaver {
 public:
  virtual ~RunSaver() = default;

  /// Saves the values after `step`: as the newest unless `best_alone`, and as the best if
  /// `held_out_loss` is given and the lowest. Error kNotFinite: a value is NaN or infinite, and
  /// nothing is saved.
  virtual Status Save(Training& training, int64_t step,
                      const EvaluationHistory& history,
                      std::optional<double> held_out_loss, bool best_alone) = 0;
};

/// The other ranks of a run.
class RunPeers {
 public:
  virtual ~RunPeers() = default;

  /// Collective: the number of the lowest rank whose `own` is not 0; 0 if there is none. Error
  /// kRankLost.
  virtual Result<int> AnyOf(int own) = 0;
  virtual int64_t bytes_sent() const = 0;
};

/// The participants of a run, which must outlive it; null pointers are skipped.
struct RunParts {
  RunData& data;
  RunObserver* observer = nullptr;
  RunSaver* saver = nullptr;
  RunPeers* peers = nullptr;
};

/// The steps and evaluations before a resumed run.
struct RunStart {
  int64_t done = 0;
  EvaluationHistory history = {};
};

struct RunResult {
  int64_t last_step = 0;
  int stopped = 0;           // the number that StopAsked returned
  bool stops_early = false;  // by RunSpec::patience
  std::optional<Evaluation> evaluation = {};
  EvaluationHistory history = {};
  RunFigures figures = {};
  /// The status of the checkpoint after the last step; the run is complete without it.
  Status saved = {};
};

/// Evaluates after `step`, with the averaged weights if the step keeps averages
/// (train/state_backup.h). Errors: kNotFinite if the loss is NaN or infinite; those of the
/// data.
Result<std::optional<Evaluation>> EvaluateRun(Training& training, RunData& data,
                                              int64_t step);

/// Takes the steps after `start` up to spec.last_step(). Errors: kInvalidArgument for steps out
/// of order, for evaluations without a validation set, and for inputs of groups without
/// `group_input`; kNotFinite, with the step, if its
/// loss is NaN or infinite and such steps are not skipped, or if 10 steps in a row were skipped
/// (50, if each lowers a dynamic loss scale); those of the runner and the parts. Precondition:
/// params and states have values.
Result<RunResult> Run(Training& training, const RunSpec& spec,
                      const RunParts& parts, const RunStart& start = {});

}  // namespace stowage

#endif  // STOWAGE_TRAIN_RUN_H_
