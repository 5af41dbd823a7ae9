#ifndef STOWAGE_TOOLS_TASK_H_
#define STOWAGE_TOOLS_TASK_H_

// The data of a training command: batches for its steps, and the evaluation on its validation
// set.
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

/// The share of one of several ranks in evaluations.
struct TaskShare {
  int rank = 0;
  int ranks = 1;
  /// Collective: sums over all ranks. Absent if there is one rank.
  std::function<Status(std::span<double>)> sum = {};
  /// Collective: the signal that a rank has caught, or 0. Absent if there is one rank.
  std::function<Result<int>(int)> any = {};
  /// Whether all ranks take the same number of evaluation steps, which they must if steps
  /// gather weights; surplus results are dropped.
  bool together = false;
};

class Task {
 public:
  explicit Task(const TaskShare& share) : share_(share) {}
  virtual ~Task() = default;
  /// Whether there is a validation set; if not, EvaluationBatch and Evaluate are not called.
  virtual bool has_held_out() const { return true; }

  /// The program that takes the batch of `step`: 0 for the training step, else an index into
  /// TrainingSpec::shapes, counted from 1.
  virtual size_t ShapeOf(int64_t /*step*/) { return 0; }
  /// Draws the batch of `step`, a function of the seed and the step alone, and writes this
  /// rank's part of it (PartOfRank) to the inputs of `train`. Allocates nothing.
  virtual Status WriteBatch(Runner& train, int64_t step) = 0;

  /// The examples in an evaluation step, at most `most`.
  virtual int64_t EvaluationBatch(int64_t most) const = 0;
  /// Evaluates by a program of `batch` examples, one of EvaluationBatch's: a text by the mean of
  /// at most evaluation_batches batches. Reports each step to `progress`; a signal
  /// (StopSignals) stops it, and there is no result. Ranks share the steps, and all get the
  /// result, with the bits of one rank alone.
  virtual Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                                      WorkProgress& progress) = 0;

  /// The examples of an evaluation that SplitForEvaluation (autodiff/split_model.h)
  /// combines from parts; 0 if every output is the mean of the parts'.
  virtual int64_t EvaluationExamples() const { return 0; }
  /// Sets the split, and computes its totals by a program of `batch` examples; `totals` is null
  /// if there are none. Errors: those of the program. Precondition: EvaluationExamples() > 0.
  virtual Status PrepareEvaluation(const SplitEvaluation& /*split*/,
                                   Runner* /*totals*/, int64_t /*batch*/) {
    return {};
  }

  /// Whether the loss compares the model with itself before training.
  virtual bool has_reference() const { return false; }
  /// Computes that by a program with the weights before training and `batch` examples, for all
  /// examples of `steps` steps and the validation set. Reports to `progress`; after a signal,
  /// nothing is kept.
  virtual Status TakeReference(Runner& /*evaluate*/, int64_t /*batch*/,
                               int64_t /*steps*/, WorkProgress& /*progress*/) {
    return {};
  }

  /// Makes evaluations count labels by class, by a program of WithPredictions
  /// (train/evaluation.h).
  void CountClasses(int64_t classes) { counts_.emplace(classes); }
  /// The counts of this rank since they were cleared; null unless it counts.
  ClassCounts* counts() { return counts_ ? &*counts_ : nullptr; }

  /// Makes each rank take all steps of evaluations.
  void EvaluateAlone() { share_ = {}; }
  /// Makes all ranks take the same number of them.
  void EvaluateTogether() { share_.together = true; }

  /// The number of training examples, which is the length of an epoch: rows, images, or
  /// adjacent windows of a text. Batches may be drawn with repetition.
  virtual int64_t train_examples() const = 0;

  /// Tokens, or examples if there are no sequences, in a training step of that shape.
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

/// Calls take(step, counts) for this rank's steps of an evaluation: those congruent to its rank
/// modulo `share.ranks`. A signal to any rank ends it and stops `progress`. Errors: those of
/// `take` and of the share.
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

/// The sums that an evaluation step adds to.
using Score = std::array<double, 2>;

/// The scores of all steps of an evaluation, shared among ranks by TakeShare; after a signal,
/// of the steps before it. `count` is called after each step that counts. Errors: those of
/// `score`, `count` and the share.
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

/// The largest divisor of `size` that is at most `limit`, as a batch that takes every example
/// once. Precondition: both are at least 1.
int64_t DividingBatch(int64_t size, int64_t limit);

/// Takes a step of a program. Error: that of the step, explained.
Status TakeStep(Runner& runner);

/// The mean loss of `batches` evaluation steps, shared among ranks; `write` writes the inputs
/// of a step, `count` is that of ScoreAll. Errors: those of `write`, `count`, a step and the
/// share.
Result<Evaluation> MeanLoss(
    const TaskShare& share, Runner& evaluate, int64_t batches,
    WorkProgress& progress, const std::function<Status(int64_t)>& write,
    const std::function<Status()>& count = [] { return Status(); });

/// The task of the model on the data in `path`, which the spec may hold already. Errors: those
/// of TextData and DigitsData; kInvalidArgument for digits with a model of other images.
Result<std::unique_ptr<Task>> LoadTask(const StepSpec& spec,
                                       const std::string& path, uint64_t seed,
                                       const TaskShare& share = {});

/// Reads a text that a tokenizer encodes. Errors: those of ReadTextFile and CheckTrainingText
/// (data/text_data.h).
Result<std::string> ReadTrainingText(const std::string& path);

/// Prints to stderr the number of bytes of a text, called `what`, without a token, if any, and
/// their treatment.
void ReportLostBytes(const Tokenizer& tokenizer, int64_t without_token,
                     const std::string& what);

/// The default number of batches in an evaluation of a text.
inline constexpr int64_t kEvaluationBatches = 100;

/// The task of windows of a text, evaluated by at most `evaluation_batches` batches.
std::unique_ptr<Task> MakeTextTask(
    TextData data, int64_t batch, int64_t seq, uint64_t seed,
    int64_t evaluation_batches = kEvaluationBatches,
    const TaskShare& share = {});

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TASK_H_
