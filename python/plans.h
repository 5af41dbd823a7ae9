#ifndef STOWAGE_PYTHON_PLANS_H_
#define STOWAGE_PYTHON_PLANS_H_

// Provides planned training steps, which `stowage.plan` returns and a Trainer opens. A planned step
// consists of the planner, its plan and the model. The Python function `pack` solves packing
// problems that are given as arrays.
//
// An object with threads belongs to the process that created it. A forked child has a copy of the
// object's memory but not of its threads, so the destructor would block in the child when it joins
// the threads. OfThisProcess therefore never destroys the object in a child. TurnsOfThisProcess is
// a mutex that does not block in a child if a thread of the parent held it during the fork.
//
//   std::shared_ptr<Backend> backend = OfThisProcess(MakeCpuBackend({.threads = 2}));
//
//   if (!turns.Take()) return Error{...};  // held by a thread of the parent
//   ...
//   turns.Give();

#include <pybind11/pybind11.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/param_groups.h"
#include "base/bytes.h"
#include "planner/lifetimes.h"
#include "python/models.h"
#include "train/optimizer_choice.h"
#include "train/training.h"

namespace stowage::python {

/// Returns a shared pointer to `object`. The last owner in this process destroys the object, and a
/// forked child never does.
template <typename T>
std::shared_ptr<T> OfThisProcess(std::unique_ptr<T> object) {
  const pid_t process = getpid();
  return {object.release(), [process](T* last) {
            if (getpid() == process) delete last;
          }};
}

/// A mutex for the threads of one process. A forked child does not block on a lock of its parent.
class TurnsOfThisProcess {
 public:
  /// Locks the mutex. Returns false in a forked child if a thread of the parent held the lock.
  bool Take() {
    const pid_t process = getpid();
    for (pid_t taken_by = 0;
         !taken_by_.compare_exchange_strong(taken_by, process); taken_by = 0) {
      if (taken_by != process) return false;
      taken_by_.wait(taken_by);
    }
    return true;
  }
  void Give() {
    taken_by_ = 0;
    taken_by_.notify_one();
  }

 private:
  std::atomic<pid_t> taken_by_ = 0;  // 0 means unlocked
};

/// Settings of an optimizer by name. The value of a flag is 0 or 1.
using OptimizerSettings = std::map<std::string, double>;

/// The arguments of `stowage.plan`, with the defaults of the library.
struct Request {
  std::optional<Bytes> budget = {};
  /// "auto", "none", or a map from "micro_batches" and names of memory optimizations
  /// (OptimizationTable) to their choices.
  std::variant<std::string, std::map<std::string, std::string>> optimizations =
      "auto";
  std::string optimizer = {};  // "" means the model's, or else AdamW
  OptimizerSettings optimizer_settings = {};
  std::optional<double> clip_norm = {};
  std::optional<double> ema = {};
  /// A string that ChooseLossScaling (train/optimizer_choice.h) accepts.
  std::string loss_scale = {};
  std::vector<ParamGroup> groups = {};
  /// The names of values that must not be recomputed, and of values that must be recomputed.
  std::vector<std::string> recompute_keep = {}, recompute_always = {};
  bool allow_batch_change = false;
  std::string plan_cache = {};  // a folder; empty means no cache
  bool evaluates = false;       // whether other programs are planned, too
};

/// Returns the spec for TrainingPlanner, without recompute_keep and recompute_always. Returns an
/// error for an unknown memory optimization, choice, optimizer, setting or loss scale. Propagates
/// errors of building the model.
Result<TrainingSpec> SpecOf(const Model& model, const Request& request);

class PlannedTraining {
 public:
  /// Plans a training step for kernels with the requirements `needs`. Propagates errors of SpecOf
  /// and TrainingPlanner. Returns kInvalidArgument if values to keep or recompute are named and
  /// recomputation is disabled.
  static Result<std::shared_ptr<PlannedTraining>> Make(Model model,
                                                       const Request& request,
                                                       DeviceNeeds needs);

  const Model& model() const { return model_; }
  const TrainingSpec& spec() const { return planner_.spec(); }
  const TrainingPlan& plan() const { return plan_; }

  /// Returns search(planner().step()), called as by WithoutGil, in one thread at a time. Raises
  /// Forked in a child that was forked while another thread was in Search.
  template <typename F>
  auto Search(F&& search);

 private:
  PlannedTraining(Model model, TrainingPlanner planner, TrainingPlan plan)
      : model_(std::move(model)),
        planner_(std::move(planner)),
        plan_(std::move(plan)) {}

  Model model_;
  TrainingPlanner planner_;
  TrainingPlan plan_;
  TurnsOfThisProcess turns_;
};

/// Adds the Python classes Request and Plan, and the functions that plan and pack, to `module`.
void BindPlans(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_PLANS_H_
