#ifndef STOWAGE_TOOLS_TASK_H_
#define STOWAGE_TOOLS_TASK_H_

// What a model learns: where its batches come from, and how it is judged on
// what was held out.
//
//   Result<std::unique_ptr<Task>> task =
//       LoadTask(spec, "digits.csv", /*evaluation_batch=*/64, /*seed=*/1);
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

/// What one of several ranks does of a task.
struct TaskShare {
  int rank = 0;
  int ranks = 1;
  /// Sums of all ranks; each calls it equally often. Where there are several.
  std::function<Status(std::span<double>)> sum = {};
  /// The signal that one of the ranks has caught, or 0; likewise.
  std::function<Result<int>(int)> any = {};
  /// Whether all ranks take equally many steps of an evaluation, as they must where
  /// these gather weights: then some are for nothing.
  bool together = false;
};

class Task {
 public:
  explicit Task(const TaskShare& share) : share_(share) {}
  virtual ~Task() = default;
  /// Whether something is held out to judge by; else neither of the two below is asked.
  virtual bool has_held_out() const { return true; }

  /// Which of the run's steps takes the batch of `step`: 0 the one that takes all, else
  /// one of TrainingSpec::shapes, counted from 1.
  virtual size_t ShapeOf(int64_t /*step*/) { return 0; }
  /// Draws the batch of `step`, a function of the seed and the step alone, and
  /// writes it to the inputs of that step's runner: of several ranks, this one's part
  /// of it (PartOfRank). Allocates nothing.
  virtual Status WriteBatch(Runner& train, int64_t step) = 0;

  /// Examples that a step of an evaluation takes when it may take up to `most`.
  virtual int64_t EvaluationBatch(int64_t most) const = 0;
  /// By a program that takes `batch` examples a step, one of EvaluationBatch's.
  /// Of a text the mean of at most its first 100 batches, of a file's model as of one.
  /// Tells `progress` of each step, and of a signal (StopSignals), which ends it; there is
  /// no result then. Several ranks share the steps, and all have the result, which has
  /// the bits that one alone would get.
  virtual Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                                      WorkProgress& progress) = 0;

  /// Examples whose evaluation follows from those of their parts as SplitForEvaluation
  /// (autodiff/split_model.h) says; 0 where every output is the mean of the parts'.
  virtual int64_t EvaluationExamples() const { return 0; }
  /// Takes how it follows, and makes its totals by a program that takes `batch` examples
  /// a step; null where there are none. Precondition: EvaluationExamples() > 0. Errors:
  /// those of the program.
  virtual Status PrepareEvaluation(const SplitEvaluation& /*split*/,
                                   Runner* /*totals*/, int64_t /*batch*/) {
    return {};
  }

  /// Whether its examples are compared with what the model says of them before training.
  virtual bool has_reference() const { return false; }
  /// Takes that from a program whose weights are those before training and which takes
  /// `batch` examples a step, for all that `steps` steps draw and what is held out. As an
  /// evaluation tells `progress`; after a signal nothing of it is there.
  virtual Status TakeReference(Runner& /*evaluate*/, int64_t /*batch*/,
                               int64_t /*steps*/, WorkProgress& /*progress*/) {
    return {};
  }

  /// Counts labels by class in evaluations from now on, by a program of WithPredictions
  /// (train/evaluation.h).
  void CountClasses(int64_t classes) { counts_.emplace(classes); }
  /// What this rank has counted since it was cleared; null unless it counts.
  ClassCounts* counts() { return counts_ ? &*counts_ : nullptr; }

  /// From now on each rank takes all steps of an evaluation itself.
  void EvaluateAlone() { share_ = {}; }
  /// From now on all ranks take equally many of them.
  void EvaluateTogether() { share_.together = true; }

  /// Examples of the training part, of which an epoch has as many: rows, images, or
  /// windows of a text side by side. Batches may be drawn with repetition.
  virtual int64_t train_examples() const = 0;

  /// Tokens, or examples where there are no sequences, in a training step of that shape.
  virtual int64_t tokens_per_step(size_t shape) const = 0;
  virtual std::string_view token_name() const = 0;  // for people, short

 protected:
  /// Counts the labels of a step of an evaluation, if they are to be counted.
  Status CountStep(const Runner& evaluate);

  TaskShare share_;  // of evaluations

 private:
  std::optional<ClassCounts> counts_;
  std::array<std::vector<int32_t>, 3> outputs_;  // of WithPredictions
};

/// Calls take(step, whether it counts) for this rank's steps of an evaluation: those whose
/// index is its own modulo `share.ranks`. A signal to any rank ends it, which `progress`
/// then knows. Errors: those of `take` and of the share.
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
    // One that another rank takes, for nothing, where all take equally many.
    STOWAGE_RETURN_IF_ERROR(take(std::min(step, steps - 1), step < steps));
    progress.Show(std::min(step + share.ranks, steps), steps);
  }
  return {};
}

/// What a step of an evaluation adds to it.
using Score = std::array<double, 2>;

/// The scores of all steps of an evaluation, shared as TakeShare does; those before a
/// signal. `count` is called behind each step that counts. Errors: those of `score`,
/// `count` and the share.
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
  // The others' are 0 here, and to add 0 changes nothing.
  if (share.sum) {
    STOWAGE_RETURN_IF_ERROR(
        share.sum(std::span(scores.data()->data(), 2 * scores.size())));
  }
  return scores;
}

/// The largest batch up to `limit` that divides `size`, so that an evaluation takes every
/// example once. Both are at least 1.
int64_t DividingBatch(int64_t size, int64_t limit);

/// One step of a program; what went wrong as an error.
Status TakeStep(Runner& runner);

/// The mean of the losses of `batches` steps of an evaluation, shared as ScoreAll does;
/// `write` gives step i its inputs, `count` is as of ScoreAll. Errors: those of `write`,
/// `count`, a step and the share.
Result<Evaluation> MeanLoss(
    const TaskShare& share, Runner& evaluate, int64_t batches,
    WorkProgress& progress, const std::function<Status(int64_t)>& write,
    const std::function<Status()>& count = [] { return Status(); });

/// The task of the model on the data in `path`, which the spec may hold already.
/// Errors: those of TextData and DigitsData; rows of digits for a model of other
/// images.
Result<std::unique_ptr<Task>> LoadTask(const StepSpec& spec,
                                       const std::string& path, uint64_t seed,
                                       const TaskShare& share = {});

/// Reads a text that a tokenizer encodes. Errors: those of ReadTextFile and CheckTrainingText
/// (data/training_text.h).
Result<std::string> ReadTrainingText(const std::string& path);

/// Prints on stderr how many bytes of a text, called `what`, the tokenizer has no token for,
/// if there are any, and what becomes of them.
void ReportLostBytes(const Tokenizer& tokenizer, int64_t without_token,
                     const std::string& what);

/// That a text is judged by, unless something else is asked for.
inline constexpr int64_t kEvaluationBatches = 100;

/// Windows of a text, judged by at most so many batches.
std::unique_ptr<Task> MakeTextTask(
    TextData data, int64_t batch, int64_t seq, uint64_t seed,
    int64_t evaluation_batches = kEvaluationBatches,
    const TaskShare& share = {});

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TASK_H_
