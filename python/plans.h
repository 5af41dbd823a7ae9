#ifndef STOWAGE_PYTHON_PLANS_H_
#define STOWAGE_PYTHON_PLANS_H_

// A training step as it was planned, which is what `stowage.plan` returns and what a
// Trainer opens: the planner with its answer, and the model that both are of.

#include <pybind11/pybind11.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/bytes.h"
#include "planner/lifetimes.h"
#include "python/models.h"
#include "python/of_this_process.h"
#include "train/optimizer_choice.h"
#include "train/training.h"

namespace stowage::python {

/// What a training is asked to be; each with the default of the library's own.
struct Request {
  std::optional<Bytes> budget = {};
  /// "auto", "none", or choices by name (OptimizationTable) beside "micro_batches".
  std::variant<std::string, std::map<std::string, std::string>> optimizations =
      "auto";
  std::string optimizer = {};  // empty: the model's
  std::map<std::string, double> optimizer_settings = {};
  std::optional<double> clip_norm = {};
  std::optional<double> ema = {};
  std::string loss_scale =
      {};  // as ChooseLossScaling has it, of the model's dtype
  std::vector<ParamGroup> groups = {};
  /// Names of values that never run again, and of those that always do.
  std::vector<std::string> recompute_keep = {}, recompute_always = {};
  bool allow_batch_change = false;
  std::string plan_cache = {};  // a folder; empty: none
  bool evaluates = false;       // with the model's programs beside the step
};

/// What TrainingPlanner is asked for `model`. Errors: an optimization, a choice or an optimizer
/// that there is not.
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

  /// What `search` returns of the planner, a Result, as WithoutGil has it; threads take
  /// turns. Raises Forked in a child that was forked while another thread was at it.
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

/// Adds the classes Request and Plan, and what makes a plan.
void BindPlans(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_PLANS_H_
