#ifndef STOWAGE_TRAIN_RUN_H_
#define STOWAGE_TRAIN_RUN_H_

// Runs a training from its first step to its last, including batches, scheduled learning rates,
// evaluations, early stopping and checkpoints. The command-line tool and the Python package use it,
// and C++ programs can.
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
// If the same program runs a second time, it continues from the checkpoint. The results are
// bit-equal to the results of an uninterrupted run. Clipping, weight decay, loss scaling and
// gradient accumulation are settings of the step (TrainOptions), not of the run.

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

/// The length of a run, its learning rate, and the steps at which it is evaluated and saved.
struct RunSpec {
  int64_t steps = 0;    // steps of the whole run, which the schedule spans
  int64_t stop_at = 0;  // last step of this call; 0 means `steps`
  double steps_per_epoch = 1;
  LearningRateSchedule schedule = {};
  /// Returns the learning rate of `step`. Called once for each step, before the step starts. If
  /// empty, `schedule` determines the rate.
  std::function<double(int64_t step)> rate = {};
  /// Returns the value of a ParamGroup's input (autodiff/param_groups.h), such as "lr:backbone", at
  /// `step`. May be empty if the groups have no inputs.
  std::function<double(std::string_view input, int64_t step)> group_input = {};
  int64_t seed = 1;  // for dropout and stochastic rounding
  /// The number of steps between checkpoints, and between evaluations that count for `patience`. 0
  /// means only after the last step. After the last step, the run always evaluates, if there is a
  /// validation set, and saves. It also evaluates before every other checkpoint, since that
  /// checkpoint may be the best.
  int64_t save_every = 0;
  int64_t eval_every = 0;
  /// The run stops after this number of consecutive evaluations without a new lowest loss. 0 means
  /// that it never stops early.
  int64_t patience = 0;
  /// Undoes a step whose loss, params or states become NaN or infinite (FiniteGuard in
  /// train/state_backup.h). If false, a non-finite loss ends the run, and non-finite params or
  /// states are noticed only through the loss of a later step or by a checkpoint. In either case, a
  /// step with loss scaling skips its update if gradients are not finite. Run (below) limits the
  /// number of consecutive skipped steps.
  bool skips_nonfinite = false;

  int64_t last_step() const { return stop_at > 0 ? stop_at : steps; }
  double RateAt(int64_t step) const {
    return rate ? rate(step) : schedule.At(step, steps);
  }
  bool EvaluatesAt(int64_t step) const {
    return step == last_step() || (eval_every > 0 && step % eval_every == 0);
  }
};

/// The result on the validation set. If the step keeps averages of the weights (TrainOptions::ema),
/// they are evaluated instead of the weights.
struct Evaluation {
  double loss = 0;
  std::optional<double> accuracy = {};  // accuracy of a classifier, in [0, 1]
  /// Names and values of other metrics (train/evaluation.h).
  std::vector<std::pair<std::string_view, double>> metrics = {};
};

/// The measurements of one step.
struct StepFigures {
  int64_t step = 0;  // counts from 1
  double epoch = 0;  // passes over the training data, including this step
  double loss = 0;   // NaN if a skipped step has no loss
  double lr = 0;
  std::optional<double> grad_norm = {};   // if gradients are clipped by norm
  std::optional<double> loss_scale = {};  // if loss scaling is dynamic
  double seconds = 0;
  int64_t tokens = 0;
  double tokens_per_second = 0;
};

/// The measurements of all steps of one call of Run.
struct RunFigures {
  std::optional<double> loss;  // loss of the last step that was not skipped
  int64_t steps = 0;
  int64_t skipped = 0;
  /// Heap allocations during steps, or nullopt if RunObserver::HeapAllocations does not count them.
  std::optional<int64_t> heap_allocations = 0;
  int64_t bytes_sent = 0;  // sent from this rank to others during steps
};

/// Provides the examples of a run.
class RunData {
 public:
  virtual ~RunData() = default;

  /// Returns the number of the program that runs `step`: 0 for the training step, or i + 1 for
  /// element i of TrainingSpec::shapes.
  virtual size_t ShapeOf(int64_t /*step*/) { return 0; }
  /// Writes the batch of step `number` to all inputs of `step` other than "lr", "step", "seed" and
  /// the inputs of ParamGroups. The batch must depend only on `number`.
  virtual Status WriteBatch(Runner& step, int64_t number) = 0;
  /// Returns the number of tokens or examples in a batch of `shape`, a result of ShapeOf. 0 means
  /// unknown.
  virtual int64_t tokens_per_step(size_t /*shape*/) const { return 0; }
  /// Returns whether there is a validation set, which is held out of training.
  virtual bool has_held_out() const { return false; }
  /// Evaluates the validation set. Called only if has_held_out() is true. Returns nullopt if a stop
  /// interrupts the evaluation.
  virtual Result<std::optional<Evaluation>> Evaluate(Training& /*training*/) {
    return std::optional<Evaluation>();
  }
};

/// Receives the events of a run. By default, functions do nothing unless documented otherwise.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  virtual void OnStep(const StepFigures& /*figures*/) {}
  /// Called after a step whose update was skipped or undone. `why` is the reason, and `outcome`
  /// describes what was skipped or undone.
  virtual void OnSkipped(const StepFigures& /*figures*/,
                         const std::string& /*why*/,
                         std::string_view /*outcome*/) {}
  /// Called after the last step, and after each step at which RunSpec::eval_every requires an
  /// evaluation. `evaluation` is nullopt if there is no validation set. `counts` is true if the
  /// evaluation counts for early stopping.
  virtual void OnEvaluation(int64_t /*step*/,
                            const std::optional<Evaluation>& /*evaluation*/,
                            bool /*counts*/) {}
  /// Called if a checkpoint before the last step fails with kIo. Other errors end the run without
  /// this call. Returns OK to continue without it, or an error to end the run. The default returns
  /// `error`.
  virtual Status OnUnsaved(const Error& error) { return error; }
  /// Called at least once before every step, and again while started steps complete and after
  /// evaluations. A result other than 0, such as the number of a signal, ends the run after the
  /// steps that have been started.
  virtual int StopAsked() { return 0; }
  /// Returns whether OnStep reads params or states. If true, the next step starts only after OnStep
  /// has returned, even on asynchronous devices.
  virtual bool reads_values() const { return false; }
  /// Returns the number of heap allocations of the process, or nullopt if they are not counted.
  virtual std::optional<int64_t> HeapAllocations() { return std::nullopt; }
};

/// Saves the checkpoints of a run.
class RunSaver {
 public:
  virtual ~RunSaver() = default;

  /// Saves the values after `step`. They become the newest checkpoint unless `best_alone` is true.
  /// They also become the best checkpoint if `held_out_loss`, the validation loss, is given and is
  /// the lowest so far. Returns kNotFinite, and saves nothing, if a value is NaN or infinite.
  virtual Status Save(Training& training, int64_t step,
                      const EvaluationHistory& history,
                      std::optional<double> held_out_loss, bool best_alone) = 0;
};

/// Communicates with the other ranks of a run.
class RunPeers {
 public:
  virtual ~RunPeers() = default;

  /// Returns the value of `own` on the lowest rank where it is not 0, or 0 if it is 0 on all ranks.
  /// All ranks must call it. Returns kRankLost if a rank is lost.
  virtual Result<int> AnyOf(int own) = 0;
  virtual int64_t bytes_sent() const = 0;
};

/// The participants of a run, which must outlive it. All but `data` may be null.
struct RunParts {
  RunData& data;
  RunObserver* observer = nullptr;
  RunSaver* saver = nullptr;
  RunPeers* peers = nullptr;
};

/// The progress before a resumed run: the number of steps, and the evaluations.
struct RunStart {
  int64_t done = 0;
  EvaluationHistory history = {};
};

struct RunResult {
  int64_t last_step = 0;
  int stopped = 0;           // result of StopAsked that ended the run, or 0
  bool stops_early = false;  // RunSpec::patience ended the run
  std::optional<Evaluation> evaluation = {};
  EvaluationHistory history = {};
  RunFigures figures = {};
  /// The status of the checkpoint after the last step. If it is an error, Run has nevertheless
  /// completed all steps.
  Status saved = {};
};

/// Evaluates the values after `step`, with the averaged weights if the step keeps averages
/// (train/state_backup.h). Returns nullopt if `data` has no validation set, or if a stop interrupts
/// the evaluation. Returns kNotFinite if the validation loss is NaN or infinite. Propagates errors
/// of `data` and of AveragedWeights.
Result<std::optional<Evaluation>> EvaluateRun(Training& training, RunData& data,
                                              int64_t step);

/// Runs the steps after `start` up to spec.last_step(). Params and states must have values. Returns
/// kInvalidArgument unless 0 <= start.done <= spec.last_step() <= spec.steps, if `eval_every` is
/// set without a validation set, if `patience` is set without `eval_every`, or if ParamGroups have
/// inputs and `group_input` is empty. Returns kNotFinite, with the step, if a training loss is NaN
/// or infinite and `skips_nonfinite` is false, if a validation loss is NaN or infinite, or if 10
/// consecutive steps were skipped (50 with a dynamic loss scale, since each skipped step lowers
/// it). Propagates errors of the runner and of `parts`.
Result<RunResult> Run(Training& training, const RunSpec& spec,
                      const RunParts& parts, const RunStart& start = {});

}  // namespace stowage

#endif  // STOWAGE_TRAIN_RUN_H_
