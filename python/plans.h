#ifndef STOWAGE_PYTHON_PLANS_H_
#define STOWAGE_PYTHON_PLANS_H_

// Planned training steps, which `stowage.plan` returns and a Trainer opens: the planner, its
// plan and the model. And the packing problem by itself.
//
// Objects with threads belong to the process that created them: a forked child has a copy of
// their memory but not the threads, so that joining them would hang. OfThisProcess leaves
// such an object alone in a child; TurnsOfThisProcess is a mutex that a child does not wait
// for if a thread of its parent held it.
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

/// Shares `object`, which is destroyed with its last owner in this process, never in a
/// child.
template <typename T>
std::shared_ptr<T> OfThisProcess(std::unique_ptr<T> object) {
  const pid_t process = getpid();
  return {object.release(), [process](T* last) {
            if (getpid() == process) delete last;
          }};
}

/// A mutex for the threads of one process.
class TurnsOfThisProcess {
 public:
  /// Locks. Returns false in a forked child if a thread of the parent held the lock.
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
  std::atomic<pid_t> taken_by_ = 0;  // 0: unlocked
};

/// Settings of an optimizer, by name; a flag is 0 or 1.
using OptimizerSettings = std::map<std::string, double>;

/// The arguments of `stowage.plan`, with the library's defaults.
struct Request {
  std::optional<Bytes> budget = {};
  /// "auto", "none", or choices by name (OptimizationTable) beside "micro_batches".
  std::variant<std::string, std::map<std::string, std::string>> optimizations =
      "auto";
  std::string optimizer = {};  // empty: the model's
  OptimizerSettings optimizer_settings = {};
  std::optional<double> clip_norm = {};
  std::optional<double> ema = {};
  std::string loss_scale =
      {};  // as ChooseLossScaling has it, of the model's dtype
  std::vector<ParamGroup> groups = {};
  /// Names of values that are never, or always, recomputed.
  std::vector<std::string> recompute_keep = {}, recompute_always = {};
  bool allow_batch_change = false;
  std::string plan_cache = {};  // a folder; empty: none
  bool evaluates = false;       // plans the model's other programs too
};

/// The spec for TrainingPlanner. Errors: an unknown memory optimization, choice or optimizer.
Result<TrainingSpec> SpecOf(const Model& model, const Request& request);

class PlannedTraining {
 public:
  /// Errors: those of SpecOf and TrainingPlanner.
  static Result<std::shared_ptr<PlannedTraining>> Make(Model model,
                                                       const Request& request,
                                                       DeviceNeeds needs);

  const Model& model() const { return model_; }
  const TrainingSpec& spec() const { return planner_.spec(); }
  const TrainingPlan& plan() const { return plan_; }

  /// Calls `search(planner)` as WithoutGil does, one thread at a time. Raises Forked in a
  /// child that was forked during another thread's search.
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

/// Adds the classes Request and Plan, and the functions that plan and pack.
void BindPlans(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_PLANS_H_
