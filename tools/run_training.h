#ifndef STOWAGE_TOOLS_RUN_TRAINING_H_
#define STOWAGE_TOOLS_RUN_TRAINING_H_

// Runs `stowage train` or `stowage finetune`, from reading the data to the last line of output. The
// model is built in, from an ONNX file, or published. The header also implements the interfaces of
// train/run.h for these commands (TaskData, RunReporter, FilesSaver), and builds the programs that
// run in addition to the training step.
//
//   TaskData data(task, evaluation_batch, ranks, metrics);
//   RunReporter reporter({.run = run, .memory = memory, ...});
//   FilesSaver saver(files, ranks, values);
//   Result<RunResult> result =
//       Run(training, run, {.data = data, .observer = &reporter, .saver = &saver});
//
//   auto splits = std::make_shared<EvaluationSplits>(spec, task);
//   training.programs = ProgramsBeside(spec, task, splits, sample_positions);
//   Status prepared = PrepareEvaluation(*splits, batch, &task, &opened);

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/split_model.h"
#include "base/result.h"
#include "report/html.h"
#include "runtime/session.h"
#include "runtime/values.h"
#include "tools/model_flags.h"
#include "tools/progress.h"
#include "tools/rank_run.h"
#include "tools/task.h"
#include "tools/train_files.h"
#include "tools/train_flags.h"
#include "train/evaluation.h"
#include "train/rank_checkpoints.h"
#include "train/run.h"
#include "train/run_checkpoints.h"
#include "train/run_log.h"
#include "train/training.h"

namespace stowage::tools {

/// Plans the step of `spec`, runs the steps together with the other ranks, and prints the results
/// or the error. Returns the exit code.
int RunTraining(const TrainFlags& flags, const StepSpec& spec, RankRun& ranks);

/// Provides the data of a task to a run. The arguments of the constructor must outlive the object.
class TaskData : public RunData {
 public:
  /// Creates an object that evaluates with the program "evaluate", whose batch is
  /// `evaluation_batch`, and computes `metrics`.
  TaskData(Task& task, int64_t evaluation_batch, RankRun& ranks,
           const std::vector<Metric>& metrics)
      : task_(task),
        evaluation_batch_(evaluation_batch),
        ranks_(ranks),
        metrics_(metrics) {}

  size_t ShapeOf(int64_t step) override { return task_.ShapeOf(step); }
  Status WriteBatch(Runner& step, int64_t number) override {
    return task_.WriteBatch(step, number);
  }
  int64_t tokens_per_step(size_t shape) const override {
    return task_.tokens_per_step(shape);
  }
  bool has_held_out() const override { return task_.has_held_out(); }
  Result<std::optional<Evaluation>> Evaluate(Training& training) override;

 private:
  Task& task_;
  const int64_t evaluation_batch_;
  RankRun& ranks_;
  const std::vector<Metric>& metrics_;
};

class RunReporter : public RunObserver {
 public:
  struct Options {
    const RunSpec& run;
    int64_t done = 0;  // steps before the first
    MemoryFigures memory;
    std::string_view token_name;
    bool json = false;           // JSON on stdout instead of lines on stderr
    bool reads_text = false;     // the loss has a perplexity
    bool shapes_differ = false;  // steps have different numbers of tokens
    bool keeps_losses = false;   // of all steps, for the page of the run
    RunLog* log = nullptr;
  };
  explicit RunReporter(const Options& options);

  void OnStep(const StepFigures& figures) override;
  void OnSkipped(const StepFigures& figures, const std::string& why,
                 std::string_view outcome) override;
  void OnEvaluation(int64_t step, const std::optional<Evaluation>& evaluation,
                    bool counts) override;
  /// Prints `error` and continues the run, because a full disk may have space for the next
  /// checkpoint.
  Status OnUnsaved(const Error& error) override;
  int StopAsked() override;
  std::optional<int64_t> HeapAllocations() override;

  const std::vector<PageLoss>& losses() const { return losses_; }

 private:
  void PrintStep(const StepFigures& figures, bool skipped);

  const Options options_;
  Progress progress_;
  std::vector<PageLoss> losses_;
};

class FilesSaver : public RunSaver {
 public:
  FilesSaver(TrainFiles& files, RankRun& ranks, const RankValues& values,
             bool saves_checkpoints)
      : files_(files),
        ranks_(ranks),
        values_(values),
        saves_checkpoints_(saves_checkpoints) {}

  /// Saves with TrainFiles. Collective if checkpoints or params are sharded. If `saves_checkpoints`
  /// is false, only checks that all values are finite, unless `best_alone`.
  Status Save(Training& training, int64_t step,
              const EvaluationHistory& history,
              std::optional<double> held_out_loss, bool best_alone) override;

  /// Saves weights and adapters for other programs (ModelExports) after the last step. If the step
  /// keeps averages of params (TrainOptions::ema), saves the averages instead of the params.
  Status SaveForOthers(Training& training, const StepSpec& spec);

 private:
  Result<Runner*> Gathered(Training& training,
                           std::optional<WholeValues>* whole);

  TrainFiles& files_;
  RankRun& ranks_;
  const RankValues& values_;
  const bool saves_checkpoints_;
};

/// Splits the evaluation of the whole validation set into evaluations of equal parts
/// (autodiff/split_model.h). Each split is computed once and cached.
class EvaluationSplits {
 public:
  /// Creates an object for the evaluation of `spec`. `task` must outlive it.
  EvaluationSplits(const StepSpec& spec, const Task& task);

  /// Returns whether a part can have `examples` examples. Returns false if the task needs no split
  /// (Task::EvaluationExamples).
  bool IsPart(int64_t examples) const;
  /// Returns the split into parts of `examples` examples. Propagates errors of building the graphs,
  /// for example if an ONNX file fixes its batch. Returns kUnsupported if the totals differ from
  /// the totals of the first split.
  const Result<SplitEvaluation>& Of(int64_t examples);
  /// Returns the split into parts of Task::EvaluationBatch(n) examples, where n is `most`, or the
  /// size of the validation set minus 1 if that is smaller.
  const Result<SplitEvaluation>& OfAtMost(int64_t most);

 private:
  Result<SplitEvaluation> Find(int64_t examples) const;

  const ModelFn evaluate_;
  const Task& task_;
  std::map<int64_t, Result<SplitEvaluation>> splits_;
  std::optional<std::vector<EvaluationTotal>> totals_;
};

/// Returns the programs that run in addition to the training step of `spec`: evaluation, and
/// generation of samples if `sample_positions` is above 0. Returns none if there is no validation
/// set. `task` must outlive the result.
std::vector<ProgramSpec> ProgramsBeside(
    const StepSpec& spec, const Task& task,
    const std::shared_ptr<EvaluationSplits>& splits, int64_t sample_positions);

/// Sets the split of the task's evaluation into parts of `batch` examples. If the loss of the whole
/// cannot be computed from such parts, prints that the validation loss is the mean over the parts.
/// Propagates errors of Task::PrepareEvaluation.
Status PrepareEvaluation(EvaluationSplits& splits, int64_t batch, Task* task,
                         Training* training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RUN_TRAINING_H_
