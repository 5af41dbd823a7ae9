#ifndef STOWAGE_PYTHON_RUNS_H_
#define STOWAGE_PYTHON_RUNS_H_

// A run (train/run.h) with batches, evaluations and callbacks from Python, for Trainer.fit.
// Run calls this class without the GIL; each Python call acquires it and releases the
// trainer's lock meanwhile, so that callbacks may evaluate and read.
//
// An exception in Python, also an interrupt, ends the run after the started steps, which are
// saved; then it is raised. The trainer remains usable.
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
    std::string path = {};  // of the newest checkpoint; empty: none
    SeriesOptions series = {};
    bool resumes = true;   // from the checkpoint at `path`, if there is one
    std::string log = {};  // of RunLog; empty: none
  };

  /// Claims the files, and resumes. `trainer` must outlive this object. Raises the errors of
  /// RunCheckpoints::Claim and Resume and RunLog::Open, and InvalidArgument if the trainer
  /// has taken other steps than the checkpoint.
  PythonRun(Trainer& trainer, const Files& files);

  /// Steps before the first of the run.
  int64_t done() const { return start_.done; }
  bool is_resumed() const { return is_resumed_; }

  /// Takes the steps of `spec`, with the trainer's learning rates. `hooks` has batch(step),
  /// the arrays of a step in the order of its inputs; if `validates`, validate(), a loss and
  /// an accuracy or None; on_step and on_evaluation, which return True to end the run; and
  /// on_unsaved. `reads_values` states that on_step reads the trainer. Returns the fields of
  /// the result by name. Raises the exceptions of hooks, and Run's errors.
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
  /// Handles signals, and asks for the batch of the next step.
  int StopAsked() override;
  bool reads_values() const override { return reads_values_; }

  /// Does nothing if no step was taken.
  Status Save(Training& training, int64_t step,
              const EvaluationHistory& history,
              std::optional<double> held_out_loss, bool best_alone) override;

 private:
  /// Calls `f` with the GIL, unless an exception is pending. An exception of `f` ends the
  /// run.
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
  // The batch that was fetched last, and its converted arrays.
  std::vector<ArrayView> views_;
  std::vector<std::vector<std::byte>> converted_;
  std::vector<std::span<const std::byte>> data_;
  int64_t fetched_ = 0, written_ = 0;  // steps
  double rate_ = 0;                    // of the fetched step, as group_values_
  std::vector<double> group_values_;
  bool is_stopped_ = false;  // by a hook
  std::optional<pybind11::error_already_set> raised_;
};

/// Adds the class Run.
void BindRuns(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_RUNS_H_
