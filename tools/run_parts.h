#ifndef STOWAGE_TOOLS_RUN_PARTS_H_
#define STOWAGE_TOOLS_RUN_PARTS_H_

// The parts of a run (train/run.h) of the training commands: its data is a task, its
// steps are shown and logged, its values are saved where the options say.
//
//   TaskData data(task, evaluation_batch, ranks);
//   RunReporter reporter({.run = run, .memory = memory, ...});
//   FilesSaver saver(files, ranks, values);
//   Result<RunResult> result =
//       Run(training, run, {.data = data, .observer = &reporter, .saver = &saver});

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "report/html.h"
#include "runtime/session.h"
#include "runtime/values.h"
#include "tools/model_flags.h"
#include "tools/progress.h"
#include "tools/rank_run.h"
#include "tools/task.h"
#include "tools/train_files.h"
#include "train/evaluation.h"
#include "train/rank_checkpoints.h"
#include "train/run.h"
#include "train/run_checkpoints.h"
#include "train/run_log.h"
#include "train/training.h"

namespace stowage::tools {

/// All arguments must outlive what is made of them.
class TaskData : public RunData {
 public:
  /// Evaluates by the program "evaluate", `evaluation_batch` examples at a time, with these
  /// metrics.
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
    bool json = false;        // objects on stdout in place of lines on stderr
    bool reads_text = false;  // which has a perplexity
    bool shapes_differ = false;  // of steps, and their tokens
    bool keeps_losses = false;   // of all steps, for the page of the run
    RunLog* log = nullptr;
  };
  explicit RunReporter(const Options& options);

  void OnStep(const StepFigures& figures) override;
  void OnSkipped(const StepFigures& figures, const std::string& why,
                 std::string_view outcome) override;
  void OnEvaluation(int64_t step, const std::optional<Evaluation>& evaluation,
                    bool counts) override;
  /// A full disk may have room for the next checkpoint.
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

  /// As TrainFiles does, by all ranks where each writes its part. Of a run without
  /// checkpoints the values are only checked.
  Status Save(Training& training, int64_t step,
              const EvaluationHistory& history,
              std::optional<double> held_out_loss, bool best_alone) override;

  /// Weights and adapters for other programs, behind the last step: of the averages, where
  /// the step keeps any.
  Status SaveForOthers(Training& training, const StepSpec& spec);

 private:
  Result<Runner*> Gathered(Training& training,
                           std::optional<WholeValues>* whole);

  TrainFiles& files_;
  RankRun& ranks_;
  const RankValues& values_;
  const bool saves_checkpoints_;
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_RUN_PARTS_H_
