#ifndef STOWAGE_PYTHON_RUNS_H_
#define STOWAGE_PYTHON_RUNS_H_

// Provides a run (train/run.h) whose batches, evaluations and callbacks are in Python, for
// Trainer.fit. Run calls this class without the GIL. Each call to Python acquires the GIL and
// releases the trainer's lock meanwhile, so callbacks may evaluate and read.
//
// An exception in Python, such as an interrupt, ends the run after the steps that have started. The
// run is saved, and then the exception is raised. The trainer remains usable.
//
//   PythonRun run(trainer, {.path = "run.safetensors"});
//   py::dict result = run.Take(hooks, spec, /*validates=*/false, /*reads_values=*/true);

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "python/arrays.h"
#include "python/trainers.h"
#include "train/evaluation.h"
#include "train/run.h"
#include "train/run_checkpoints.h"
#include "train/run_log.h"

namespace stowage::python {

class PythonRun : public RunData, public RunObserver, public RunSaver {
 public:
  struct Files {
    std::string path = {};  // of the newest checkpoint; empty means none
    SeriesOptions series = {};
    bool resumes = true;   // whether to load a checkpoint at `path`, if any
    std::string log = {};  // of RunLog; empty means none
  };

  /// Claims the files, and resumes from the checkpoint. `trainer` must outlive this object. Raises
  /// the errors of RunCheckpoints::Claim and Resume and of RunLog::Open. Raises InvalidArgument if
  /// the trainer has executed steps already, and their number differs from the checkpoint's.
  PythonRun(Trainer& trainer, const Files& files);

  /// Returns the number of steps before the first step of the run.
  int64_t done() const { return start_.done; }
  bool is_resumed() const { return is_resumed_; }

  /// Executes the steps of `spec` with the trainer's learning rates. `hooks` has the following
  /// methods.
  ///  - batch(step) returns the arrays of a step, in the order of its inputs.
  ///  - validate(), called if `validates`, returns a loss, and an accuracy or None.
  ///  - on_step and on_evaluation return True to end the run.
  ///  - on_unsaved is called if a checkpoint before the last step could not be written.
  /// `reads_values` states that on_step reads values of the trainer. Returns the fields of the
  /// result by name. Raises the exceptions of hooks, and the errors of Run.
  pybind11::dict Take(const pybind11::object& hooks, RunSpec spec,
                      bool validates, bool reads_values);

  Status WriteBatch(Runner& step, int64_t number) override;
  int64_t tokens_per_step(size_t shape) const override;
  bool has_held_out() const override { return validates_; }
  Result<std::optional<Evaluation>> Evaluate(Training& training) override;

  void OnStep(const StepFigures& figures) override {
    if (log_) log_->OnStep(figures);
    Report(figures, "");
  }
  void OnSkipped(const StepFigures& figures, const std::string& why,
                 std::string_view outcome) override {
    if (log_) log_->OnSkipped(figures, why, outcome);
    Report(figures, StrCat(why, "; ", outcome));
  }
  void OnEvaluation(int64_t step, const std::optional<Evaluation>& evaluation,
                    bool counts) override;
  Status OnUnsaved(const Error& error) override;
  /// Handles signals, and fetches the batch of the next step.
  int StopAsked() override;
  bool reads_values() const override { return reads_values_; }

  /// Does nothing if the run has executed no step.
  Status Save(Training& training, int64_t step,
              const EvaluationHistory& history,
              std::optional<double> held_out_loss, bool best_alone) override;

 private:
  /// Calls `f` with the GIL, unless an exception is pending. An exception of `f` ends the run.
  template <typename F>
  void Call(F&& f);
  void Fetch(int64_t step);
  /// `skipped` is empty if the step was not skipped.
  void Report(const StepFigures& figures, const std::string& skipped);

  Trainer& trainer_;
  std::optional<RunCheckpoints> checkpoints_;
  std::optional<RunLog> log_;
  RunStart start_;
  bool is_resumed_ = false;

  pybind11::object hooks_;
  int64_t last_step_ = 0;
  bool validates_ = false, reads_values_ = false;
  // The batch that was fetched last, with its converted arrays.
  std::vector<ArrayView> views_;
  std::vector<std::vector<std::byte>> converted_;
  std::vector<std::span<const std::byte>> data_;
  int64_t fetched_ = 0, written_ = 0;  // step numbers
  double rate_ = 0;  // of the fetched step, as are the group_values_
  std::vector<double> group_values_;
  bool is_stopped_ = false;  // whether a hook ended the run
  std::optional<pybind11::error_already_set> raised_;
};

/// Adds the Python class Run to `module`.
void BindRuns(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_RUNS_H_
