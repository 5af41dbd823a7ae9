#ifndef STOWAGE_TOOLS_TASK_H_
#define STOWAGE_TOOLS_TASK_H_

// Provides the data of a training command: the batches of its steps, and the evaluation on its
// validation set.
//
//   Result<std::unique_ptr<Task>> task = LoadTask(spec, "digits.csv", /*seed=*/1);
//   if (!task.ok()) return task.error();
//   Status written = (*task)->WriteBatch(train, step);

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/split_model.h"
#include "base/result.h"
#include "data/text_data.h"
#include "runtime/session.h"
#include "text/tokenizer.h"
#include "tools/model_flags.h"
#include "tools/progress.h"
#include "tools/stop_signals.h"
#include "train/evaluation.h"
#include "train/run.h"

namespace stowage::tools {

/// The share of an evaluation's steps that one of several ranks performs.
struct TaskShare {
  int rank = 0;
  int ranks = 1;
  /// Replaces each value by its sum over all ranks, which must all call it. Empty if there is only
  /// one rank.
  std::function<Status(std::span<double>)> sum = {};
  /// Returns a signal that any rank has caught, or 0 if none has. The argument is the signal that
  /// this rank has caught, or 0. All ranks must call it. Empty if there is only one rank.
  std::function<Result<int>(int)> any = {};
  /// Whether all ranks run the same number of evaluation steps, which is required if the steps
  /// gather sharded weights. The results of surplus steps are dropped.
  bool together = false;
};

class Task {
 public:
  explicit Task(const TaskShare& share) : share_(share) {}
  virtual ~Task() = default;
  /// Returns whether there is a validation set. If there is none, EvaluationBatch and Evaluate are
  /// not called.
  virtual bool has_held_out() const { return true; }

  /// Returns the program that runs the batch of `step`: 0 is the training step, and i > 0 is
  /// TrainingSpec::shapes[i - 1].
  virtual size_t ShapeOf(int64_t /*step*/) { return 0; }
  /// Writes this rank's share (PartOfRank in train/step_builder.h) of the batch of step number
  /// `step` to the inputs of `train`. The batch depends only on the seed and the step number. Does
  /// not allocate memory.
  virtual Status WriteBatch(Runner& train, int64_t step) = 0;

  /// Returns the number of examples in an evaluation step. It is at most `most`, unless the model
  /// has a fixed batch (ArraysTask).
  virtual int64_t EvaluationBatch(int64_t most) const = 0;
  /// Evaluates the validation set with a program of `batch` examples, where `batch` is a result of
  /// EvaluationBatch. The evaluation of a text is the mean over a limited number of batches
  /// (MakeTextTask). Reports each step to `progress`. A signal (StopSignals) stops the evaluation.
  /// progress.is_stopped() is then true, and the result must not be used. Ranks divide the steps
  /// among themselves. All ranks return the same result, which is bit-equal to the result of a run
  /// with one rank.
  virtual Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                                      WorkProgress& progress) = 0;

  /// Returns the number of examples in the validation set if an evaluation of parts needs
  /// SplitForEvaluation (autodiff/split_model.h) to compute the outputs of the whole. Returns 0 if
  /// no split is needed, because each output of the whole is the mean of the outputs of its parts.
  virtual int64_t EvaluationExamples() const { return 0; }
  /// Sets the split of evaluations, and computes the split's totals with the program `totals`,
  /// whose batch is `batch`. `totals` is null if the split has no totals. Requires
  /// EvaluationExamples() > 0. Propagates errors of the program.
  virtual Status PrepareEvaluation(const SplitEvaluation& /*split*/,
                                   Runner* /*totals*/, int64_t /*batch*/) {
    return {};
  }

  /// Returns whether the loss compares the model with its state before training.
  virtual bool has_reference() const { return false; }
  /// Computes the reference values, for the examples of the first `steps` steps and of the
  /// validation set, with a program of `batch` examples. Must be called before the first step.
  /// Reports to `progress`. If a signal interrupts the computation, no reference values are stored.
  virtual Status TakeReference(Runner& /*evaluate*/, int64_t /*batch*/,
                               int64_t /*steps*/, WorkProgress& /*progress*/) {
    return {};
  }

  /// Makes evaluations count labels and predictions by class. The graph of the evaluation program
  /// must then be from WithPredictions (train/evaluation.h).
  void CountClasses(int64_t classes) { counts_.emplace(classes); }
  /// Returns the counts of this rank since the last ClassCounts::Clear, or null if CountClasses was
  /// not called.
  ClassCounts* counts() { return counts_ ? &*counts_ : nullptr; }

  /// Makes this rank run all steps of evaluations, instead of its share.
  void EvaluateAlone() { share_ = {}; }
  /// Makes all ranks run the same number of evaluation steps (TaskShare::together).
  void EvaluateTogether() { share_.together = true; }

  /// Returns the number of training examples in an epoch. Depending on the task, examples are rows,
  /// images, adjacent windows of a text, prompts with completions, preferences, labeled texts, or
  /// queries with documents. Batches may be drawn with repetition.
  virtual int64_t train_examples() const = 0;

  /// Returns the number of tokens in a training step of `shape`, a result of ShapeOf, or of
  /// examples if they are not sequences.
  virtual int64_t tokens_per_step(size_t shape) const = 0;
  virtual std::string_view token_name() const = 0;  // "tokens", "images"

 protected:
  /// Counts the labels and predictions of the evaluation step that `evaluate` has run. Does nothing
  /// if CountClasses was not called.
  Status CountStep(const Runner& evaluate);

  TaskShare share_;  // of evaluations

 private:
  std::optional<ClassCounts> counts_;
  std::array<std::vector<int32_t>, 3> outputs_;  // of WithPredictions
};

/// Calls take(step, counts) for each of this rank's steps of an evaluation: share.rank, share.rank
/// + share.ranks, and so on. `counts` is false for a surplus step, which repeats the last step
/// (TaskShare::together). A signal to any rank ends the evaluation and calls progress.Stop().
/// Propagates errors of `take` and of the share.
template <typename F>
Status TakeShare(const TaskShare& share, int64_t steps, WorkProgress& progress,
                 F&& take) {
  const int64_t rounds = (steps + share.ranks - 1) / share.ranks;
  for (int64_t round = 0; round < rounds; ++round) {
    int signal = StopSignals::caught();
    if (share.any) {
      STOWAGE_ASSIGN_OR_RETURN(signal, share.any(signal));
    }
    if (signal != 0) {
      progress.Stop();
      return {};
    }
    const int64_t step = round * share.ranks + share.rank;
    if (step >= steps && !share.together) return {};
    // A surplus step repeats the last step, and its result is dropped.
    STOWAGE_RETURN_IF_ERROR(take(std::min(step, steps - 1), step < steps));
    progress.Show(std::min(step + share.ranks, steps), steps);
  }
  return {};
}

/// The contributions of one evaluation step to two sums, such as the loss and the accuracy.
using Score = std::array<double, 2>;

/// Returns score(step) for all steps of an evaluation, which TakeShare divides among ranks. After a
/// signal, the scores of the remaining steps are 0. Calls `count` after each step of this rank that
/// is not surplus. Propagates errors of `score`, `count` and the share.
template <typename F>
Result<std::vector<Score>> ScoreAll(
    const TaskShare& share, int64_t steps, WorkProgress& progress, F&& score,
    const std::function<Status()>& count = [] { return Status(); }) {
  std::vector<Score> scores(static_cast<size_t>(steps));
  STOWAGE_RETURN_IF_ERROR(TakeShare(
      share, steps, progress, [&](int64_t step, bool counts) -> Status {
        STOWAGE_ASSIGN_OR_RETURN(const Score own, score(step));
        if (!counts) return {};
        scores[static_cast<size_t>(step)] = own;
        return count();
      }));
  if (progress.is_stopped()) return scores;
  // Other ranks' scores are 0 here.
  if (share.sum) {
    STOWAGE_RETURN_IF_ERROR(
        share.sum(std::span(scores.data()->data(), 2 * scores.size())));
  }
  return scores;
}

/// Returns the largest divisor of `size` that is at most `limit`. With this batch size, batches
/// contain each of `size` examples exactly once. Requires `size >= 1` and `limit >= 1`.
int64_t DividingBatch(int64_t size, int64_t limit);

/// Runs one step of `runner`. Propagates errors of Runner::Explain.
Status TakeStep(Runner& runner);

/// Returns the mean loss over `batches` evaluation steps, which are divided among ranks.
/// `write(step)` must write the inputs of a step. `count` is called as by ScoreAll. Propagates
/// errors of `write`, `count`, the steps and the share.
Result<Evaluation> MeanLoss(
    const TaskShare& share, Runner& evaluate, int64_t batches,
    WorkProgress& progress, const std::function<Status(int64_t)>& write,
    const std::function<Status()>& count = [] { return Status(); });

/// Returns the task that trains the built-in model of `spec` on the data in `path`. If `spec`
/// already contains the data, `path` is not read. Propagates errors of TextData and DigitsData.
/// Returns kInvalidArgument if the data are digits (data/digits_data.h) and the model reads images
/// of another size.
Result<std::unique_ptr<Task>> LoadTask(const StepSpec& spec,
                                       const std::string& path, uint64_t seed,
                                       const TaskShare& share = {});

/// Reads the text in the file `path`, for a tokenizer to encode. Propagates errors of ReadTextFile
/// and CheckTrainingText (data/text_data.h).
Result<std::string> ReadTrainingText(const std::string& path);

/// Prints to stderr that `without_token` bytes of a text have no token, and whether they are
/// dropped or encoded as the unknown token. Prints nothing if `without_token` is 0. `what` names
/// the text in the message.
void ReportLostBytes(const Tokenizer& tokenizer, int64_t without_token,
                     const std::string& what);

/// The default number of batches in an evaluation of a text.
inline constexpr int64_t kEvaluationBatches = 100;

/// Returns the task that trains on windows of `seq` tokens of a text. An evaluation runs at most
/// `evaluation_batches` batches.
std::unique_ptr<Task> MakeTextTask(
    TextData data, int64_t batch, int64_t seq, uint64_t seed,
    int64_t evaluation_batches = kEvaluationBatches,
    const TaskShare& share = {});

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TASK_H_
