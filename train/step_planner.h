#ifndef STOWAGE_TRAIN_STEP_PLANNER_H_
#define STOWAGE_TRAIN_STEP_PLANNER_H_

// Fits a step into a budget (planner/fit/fit.h), or finds in a cache what was found
// before for the very same question.
//
//   StepPlanner planner({.build = OfGraph(step),
//                        .sources = [&] { return std::vector{step}; },
//                        .budget = 64 << 20,
//                        .cache = PlanCache(folder)});
//   Result<PlannedStep> planned = planner.Plan();
//   planned->cache == CacheUse::kHit;

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "runtime/backend.h"
#include "train/plan_cache.h"

namespace stowage {

/// Which step to plan, and how.
struct StepQuestion {
  StepBuilder build = {};
  /// All graphs that `build` builds from; asked for only where there is a cache.
  std::function<Result<std::vector<Graph>>()> sources = {};
  /// What else the steps that `build` builds depend on, as text.
  std::string settings = {};
  FitOptions fit = {};
  std::optional<Bytes> budget = {};
  /// Where they are given, optimizations are priced in time (FitOptions::cost).
  std::optional<OpTimes> op_times = {};
  /// Not asked where the packer has a deadline or `fit` a cost of its own.
  std::optional<PlanCache> cache = {};
};

struct PlannedStep {
  FittedStep step;
  CacheUse cache = CacheUse::kOff;
  std::string cache_note = {};  // what was wrong with an entry
};

class StepPlanner {
 public:
  /// The backend of the question's options must outlive this.
  explicit StepPlanner(StepQuestion question);

  /// What StepFitter::Fit says of the budget. What a cache kept is validated like
  /// any other plan, and planned anew where it is damaged.
  Result<PlannedStep> Plan();

  /// The smallest budget that Plan would not refuse; kept in the cache, too.
  Result<Bytes> SmallestBudget();

  /// For frontiers, the step as given, and the smallest budgets of other optimizations.
  StepFitter& fitter() { return fitter_; }
  const StepQuestion& question() const { return question_; }

 private:
  Result<std::string> WriteQuestion() const;
  Result<std::string> Key(std::string_view what);
  bool HasCache() const;

  StepQuestion question_;
  StepFitter fitter_;
  std::string written_ = {};  // the question, once it has been written
};

// About how long a step takes, before it has run: by the operations and bytes of its
// nodes, and by how many of them a device does in a second, which a product and a sum
// tell in a few hundredths of a second.
//
//   STOWAGE_ASSIGN_OR_RETURN(const DeviceRates rates,
//                            MeasureRates(*backend, DType::kF32));
//   const double seconds = StepSeconds(plan.step.graph, rates);
//
// It is a guess: every product is taken to be as fast as the one that was timed, and all
// else to wait for memory. Times of the ops themselves (planner/fit/cost.h) say more.

struct DeviceRates {
  double flops_per_second = 1;
  double bytes_per_second = 1;
};

/// Runs a product of matrices of a small transformer's sizes and a sum of two vectors of
/// 16 MiB on the device, in an element type. Errors: those of Session::Create and of the
/// device.
Result<DeviceRates> MeasureRates(Backend& backend, DType dtype);

/// Seconds of one run of `graph`, node after node: each as long as its operations or its
/// bytes take, whichever is longer. Views take none.
double StepSeconds(const Graph& graph, const DeviceRates& rates);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_PLANNER_H_
