#ifndef STOWAGE_PYTHON_RUNS_H_
#define STOWAGE_PYTHON_RUNS_H_

// Provides a run (train/run.h) whose batches, evaluations and callbacks are in Python, for
// Trainer.fit. Run calls the functions of PythonRun without the GIL. Each call to Python holds the
// GIL and releases the trainer's lock until it returns, so callbacks may evaluate the model and
// read params.
//
// If a hook raises a Python exception, such as an interrupt, the run ends after the steps that have
// started, a checkpoint is saved, and then the exception is raised. The trainer remains usable.
// This holds only for pybind11::error_already_set: other C++ exceptions, such as the
// pybind11::type_error of ArrayView, must not leave a hook's call.
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

  /// Claims the files, and resumes from the checkpoint if files.resumes is true and the checkpoint
  /// exists. `trainer` must outlive this object. Raises the errors of RunCheckpoints::Claim and
  /// Resume and of RunLog::Open. Raises InvalidArgument if the trainer has executed steps and their
  /// number differs from the step of the checkpoint.
  PythonRun(Trainer& trainer, const Files& files);

  /// Returns the number of steps before the first step of the run.
  int64_t done() const { return start_.done; }
  bool is_resumed() const { return is_resumed_; }

  /// Executes the steps of `spec` with the trainer's learning rates and seed. `hooks` must have the
  /// following methods.
  ///  - batch(step) returns the arrays of a step, in the order of its inputs.
  ///  - validate(), called if `validates`, returns a loss, and an accuracy or None.
  ///  - on_step and on_evaluation return True to end the run.
  ///  - on_unsaved(message) is called if a checkpoint before the last step could not be written. The
  ///    run continues.
  /// `reads_values` states whether on_step reads params or states. Returns the fields of the result
  /// by name. Raises the exceptions of hooks, the errors of Run, the error of the last checkpoint,
  /// and errors of the log.
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
  /// Handles Python's signals, and fetches the batch of the next step if it has not been fetched.
  /// Returns a nonzero number if a hook has ended the run or raised an exception.
  int StopAsked() override;
  bool reads_values() const override { return reads_values_; }

  /// Saves with RunCheckpoints. Does nothing if the run has executed no step.
  Status Save(Training& training, int64_t step,
              const EvaluationHistory& history,
              std::optional<double> held_out_loss, bool best_alone) override;

 private:
  /// Calls `f` with the GIL, unless an exception is pending. Stores a pybind11::error_already_set
  /// of `f`, which ends the run. Other exceptions are not caught.
  template <typename F>
  void Call(F&& f);
  void Fetch(int64_t step);
  /// Calls on_step. `skipped` is the reason why the step was skipped, or "" if it was not skipped.
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
