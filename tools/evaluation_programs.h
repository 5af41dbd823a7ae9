#ifndef STOWAGE_TOOLS_EVALUATION_PROGRAMS_H_
#define STOWAGE_TOOLS_EVALUATION_PROGRAMS_H_

// What a training command runs over the arena of its step beside the step: the evaluation
// of what is held out, in parts where all of it at once does not fit, and the generation
// of a sample.
//
//   auto splits = std::make_shared<EvaluationSplits>(spec, task);
//   training.programs = ProgramsBeside(spec, task, splits, sample_positions);
//   ...
//   Status prepared = PrepareEvaluation(*splits, batch, &task, &opened);

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "autodiff/split_model.h"
#include "base/result.h"
#include "tools/model_flags.h"
#include "tools/task.h"
#include "train/training.h"

namespace stowage::tools {

/// How an evaluation of what the task holds out follows from parts of it, by the examples
/// of a part; each is found once.
class EvaluationSplits {
 public:
  /// Both must outlive this.
  EvaluationSplits(const StepSpec& spec, const Task& task);

  /// Whether so many examples are a part: of other tasks' programs none are.
  bool IsPart(int64_t examples) const;
  /// Errors: those of the graphs, as of a file that fixes its batch; kUnsupported where its
  /// totals are others than those of the first that was asked for.
  const Result<SplitEvaluation>& Of(int64_t examples);
  /// Into parts of at most so many examples, and of fewer than all.
  const Result<SplitEvaluation>& OfAtMost(int64_t most);

 private:
  Result<SplitEvaluation> Find(int64_t examples) const;

  const ModelFn evaluate_;
  const Task& task_;
  std::map<int64_t, Result<SplitEvaluation>> splits_;
  std::optional<std::vector<EvaluationTotal>> totals_;
};

/// The programs beside the step of `spec`. `task` must outlive them.
std::vector<ProgramSpec> ProgramsBeside(
    const StepSpec& spec, const Task& task,
    const std::shared_ptr<EvaluationSplits>& splits, int64_t sample_positions);

/// Tells the task how its evaluation follows from parts of `batch` examples, and prints
/// where it does not: then it is judged by the mean of the parts' losses. Errors: those of
/// Task::PrepareEvaluation.
Status PrepareEvaluation(EvaluationSplits& splits, int64_t batch, Task* task,
                         Training* training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_EVALUATION_PROGRAMS_H_
