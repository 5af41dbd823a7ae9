#ifndef STOWAGE_TOOLS_TASK_H_
#define STOWAGE_TOOLS_TASK_H_

// What a model learns: where its batches come from, and how it is judged on
// what was held out.
//
//   Result<std::unique_ptr<Task>> task =
//       LoadTask(spec, "digits.csv", /*evaluation_batch=*/64, /*seed=*/1);
//   if (!task.ok()) return task.error();
//   Status written = (*task)->WriteBatch(train, step);

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "nn/text_data.h"
#include "runtime/session.h"
#include "tools/model_flags.h"
#include "tools/work_progress.h"

namespace stowage::tools {

struct Evaluation {
  double loss = 0;                 // mean over what was held out (of a text,
                                   // at most its first 100 batches)
  std::optional<double> accuracy;  // of a classifier, 0..1
};

class Task {
 public:
  virtual ~Task() = default;
  /// Whether something is held out to judge by; else neither of the two below is asked.
  virtual bool has_held_out() const { return true; }

  /// Which of the run's steps takes the batch of `step`: 0 the one that takes all, else
  /// one of TrainingSpec::shapes, counted from 1.
  virtual size_t ShapeOf(int64_t /*step*/) { return 0; }
  /// Draws the batch of `step`, a function of the seed and the step alone, and
  /// writes it to the inputs of that step's runner. Allocates nothing.
  virtual Status WriteBatch(Runner& train, int64_t step) = 0;

  /// Examples that a step of an evaluation takes when it may take up to `most`.
  virtual int64_t EvaluationBatch(int64_t most) const = 0;
  /// By a program that takes `batch` examples a step, one of EvaluationBatch's.
  /// Tells `progress` of each step.
  virtual Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                                      WorkProgress& progress) = 0;

  /// Tokens, or examples where there are no sequences, in a training step of that shape.
  virtual int64_t tokens_per_step(size_t shape) const = 0;
  virtual std::string_view token_name() const = 0;  // for people, short
};

/// One step of a program; what went wrong as an error.
Status TakeStep(Runner& runner);

/// The task of the model on the data in `path`, which the spec may hold already.
/// Errors: those of TextData and DigitsData; rows of digits for a model of other
/// pictures.
Result<std::unique_ptr<Task>> LoadTask(const StepSpec& spec,
                                       const std::string& path, uint64_t seed);

/// Windows of a text, judged by at most so many batches.
std::unique_ptr<Task> MakeTextTask(TextData data, int64_t batch, int64_t seq,
                                   uint64_t seed,
                                   int64_t evaluation_batches = 100);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_TASK_H_
