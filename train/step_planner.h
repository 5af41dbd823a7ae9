#ifndef STOWAGE_TRAIN_STEP_PLANNER_H_
#define STOWAGE_TRAIN_STEP_PLANNER_H_

// Fits a step into a budget (planner/fit/fit.h), or returns the cached result for an equal step and
// equal options.
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

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "runtime/backend.h"
#include "train/plan_cache.h"

namespace stowage {

/// The step to plan, and the options of planning.
struct StepQuestion {
  StepBuilder build = {};
  /// Returns all graphs from which `build` builds. Called only if there is a cache.
  std::function<Result<std::vector<Graph>>()> sources = {};
  /// A string of everything else on which the results of `build` depend.
  std::string settings = {};
  FitOptions fit = {};
  std::optional<Bytes> budget = {};
  /// Measured times of ops. If present, the cost of optimizations is time (FitOptions::cost).
  std::optional<OpTimes> op_times = {};
  /// The cache. It is not used if the packer has a deadline or `fit` has a custom cost.
  std::optional<PlanCache> cache = {};
};

struct PlannedStep {
  FittedStep step;
  CacheUse cache = CacheUse::kOff;
  std::string cache_note = {};  // the error of a cache entry, if any
};

class StepPlanner {
 public:
  /// Creates a planner. The backend to which the options refer must outlive it.
  explicit StepPlanner(StepQuestion question);

  /// Returns the result of StepFitter::Fit for the budget. A cached plan is validated like any
  /// other. If it is damaged, the step is planned as if there were no entry.
  Result<PlannedStep> Plan();

  /// Returns the smallest budget for which Plan succeeds. This result is also cached.
  Result<Bytes> SmallestBudget();

  /// Returns the fitter, for frontiers, the unmodified step, and smallest budgets of other
  /// optimizations.
  StepFitter& fitter() { return fitter_; }
  const StepQuestion& question() const { return question_; }

 private:
  Result<std::string> WriteQuestion() const;
  Result<std::string> Key(std::string_view what);
  bool HasCache() const;

  StepQuestion question_;
  StepFitter fitter_;
  std::string written_ = {};  // the question as bytes; empty until needed
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_PLANNER_H_
