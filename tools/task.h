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

/// The share of evaluations that one of several ranks performs.
struct TaskShare {
  int rank = 0;
  int ranks = 1;
  /// Sums over all ranks. Collective. Absent if there is one rank.
  std::function<Status(std::span<double>)> sum = {};
  /// Returns the signal that a rank has caught, or 0. Collective. Absent if there is one rank.
  std::function<Result<int>(int)> any = {};
  /// If true, all ranks run the same number of evaluation steps, which is required if steps gather
  /// weights. Surplus results are dropped.
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
  /// Draws the batch of `step`, which depends only on the seed and the step. Writes this rank's
  /// share of it (PartOfRank) to the inputs of `train`. Does not allocate.
  virtual Status WriteBatch(Runner& train, int64_t step) = 0;

  /// Returns the number of examples in an evaluation step, which is at most `most`.
  virtual int64_t EvaluationBatch(int64_t most) const = 0;
  /// Evaluates with a program of `batch` examples, where `batch` is a result of EvaluationBatch.
  /// The evaluation of a text is the mean over at most evaluation_batches batches. Reports each
  /// step to `progress`. A signal (StopSignals) stops the evaluation, and there is no result. Ranks
  /// divide the steps among themselves. All ranks get the result, which is bit-equal to the result
  /// of one rank.
  virtual Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                                      WorkProgress& progress) = 0;

  /// Returns the number of examples of an evaluation that SplitForEvaluation
  /// (autodiff/split_model.h) can split into parts. Returns 0 if each output of the whole is the
  /// mean of the outputs of its parts.
  virtual int64_t EvaluationExamples() const { return 0; }
  /// Sets the split and computes its totals with a program of `batch` examples. `totals` is null if
  /// the split has none. Propagates errors of the program. Requires EvaluationExamples() > 0.
  virtual Status PrepareEvaluation(const SplitEvaluation& /*split*/,
                                   Runner* /*totals*/, int64_t /*batch*/) {
    return {};
  }

  /// Returns whether the loss compares the model with its state before training.
  virtual bool has_reference() const { return false; }
  /// Computes the reference values with a program of `batch` examples that has the weights before
  /// training. Covers the examples of `steps` steps and of the validation set. Reports to
  /// `progress`. After a signal, no value is kept.
  virtual Status TakeReference(Runner& /*evaluate*/, int64_t /*batch*/,
                               int64_t /*steps*/, WorkProgress& /*progress*/) {
    return {};
  }

  /// Makes evaluations count labels per class. The program must be one of WithPredictions
  /// (train/evaluation.h).
  void CountClasses(int64_t classes) { counts_.emplace(classes); }
  /// Returns the counts of this rank since they were cleared, or null without CountClasses.
  ClassCounts* counts() { return counts_ ? &*counts_ : nullptr; }

  /// Makes each rank run all steps of evaluations.
  void EvaluateAlone() { share_ = {}; }
  /// Makes all ranks run the same number of evaluation steps.
  void EvaluateTogether() { share_.together = true; }

  /// Returns the number of training examples, which is the length of an epoch. Examples are rows,
  /// images, or adjacent windows of a text. Batches may be drawn with repetition.
  virtual int64_t train_examples() const = 0;

  /// Returns the number of tokens in a training step of that shape, or of examples if there are no
  /// sequences.
  virtual int64_t tokens_per_step(size_t shape) const = 0;
  virtual std::string_view token_name() const = 0;  // "tokens", "images"

 protected:
  /// Counts the labels of an evaluation step, if CountClasses was called.
  Status CountStep(const Runner& evaluate);

  TaskShare share_;  // of evaluations

 private:
  std::optional<ClassCounts> counts_;
  std::array<std::vector<int32_t>, 3> outputs_;  // of WithPredictions
};

/// Calls take(step, counts) for this rank's steps of an evaluation, which are congruent to its rank
/// modulo `share.ranks`. A signal to any rank ends the evaluation and stops `progress`. Propagates
/// errors of `take` and of the share.
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
    // A surplus step repeats another rank's, and does not count.
    STOWAGE_RETURN_IF_ERROR(take(std::min(step, steps - 1), step < steps));
    progress.Show(std::min(step + share.ranks, steps), steps);
  }
  return {};
}

/// The contributions of an evaluation step to two sums.
using Score = std::array<double, 2>;

/// Returns the scores of all steps of an evaluation, which TakeShare divides among ranks. After a
/// signal, returns the scores of the steps before it. Calls `count` after each step that counts.
/// Propagates errors of `score`, `count` and the share.
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

/// Returns the largest divisor of `size` that is at most `limit`. Batches of this size cover every
/// example exactly once. Requires `size >= 1` and `limit >= 1`.
int64_t DividingBatch(int64_t size, int64_t limit);

/// Runs a step of a program. Propagates its errors, with an explanation.
Status TakeStep(Runner& runner);

/// Returns the mean loss over `batches` evaluation steps, which are divided among ranks. `write`
/// writes the inputs of a step. `count` has the meaning that it has for ScoreAll. Propagates errors
/// of `write`, `count`, the steps and the share.
Result<Evaluation> MeanLoss(
    const TaskShare& share, Runner& evaluate, int64_t batches,
    WorkProgress& progress, const std::function<Status(int64_t)>& write,
    const std::function<Status()>& count = [] { return Status(); });

/// Returns the task of the model on the data in `path`. The data is not read again if the spec
/// already holds it. Propagates errors of TextData and DigitsData. Returns kInvalidArgument if the
/// data are digits and the model reads other images.
Result<std::unique_ptr<Task>> LoadTask(const StepSpec& spec,
                                       const std::string& path, uint64_t seed,
                                       const TaskShare& share = {});

/// Reads a text that a tokenizer will encode. Propagates errors of ReadTextFile and
/// CheckTrainingText (data/text_data.h).
Result<std::string> ReadTrainingText(const std::string& path);

/// Prints to stderr how many bytes of a text have no token, and how they are treated. Prints
/// nothing if there are none. `what` names the text.
void ReportLostBytes(const Tokenizer& tokenizer, int64_t without_token,
                     const std::string& what);

/// The default number of batches in an evaluation of a text.
inline constexpr int64_t kEvaluationBatches = 100;

/// Returns the task of windows of a text. An evaluation runs at most `evaluation_batches` batches.
std::unique_ptr<Task> MakeTextTask(
    TextData data, int64_t batch, int64_t seq, uint64_t seed,
    int64_t evaluation_batches = kEvaluationBatches,
    const TaskShare& share = {});

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TASK_H_
