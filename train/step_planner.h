#ifndef STOWAGE_TRAIN_STEP_PLANNER_H_
#define STOWAGE_TRAIN_STEP_PLANNER_H_

// Fits a step into a budget (planner/fit/fit.h). Returns the cached result if an equal step has
// been planned with equal options.
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
  /// Returns all graphs on which the results of `build` depend, for the key of the cache. Must not
  /// be empty if there is a cache, and is not called otherwise.
  std::function<Result<std::vector<Graph>>()> sources = {};
  /// A string that describes everything else on which the results of `build` depend, for the key of
  /// the cache.
  std::string settings = {};
  FitOptions fit = {};
  std::optional<Bytes> budget = {};
  /// Measured times of ops. If present, memory optimizations are chosen by time, and
  /// FitOptions::cost is ignored.
  std::optional<OpTimes> op_times = {};
  /// The cache of plans, if any. It is not used if planning has a deadline (PlanOptions::deadline),
  /// or if `fit` has a custom cost and `op_times` is absent.
  std::optional<PlanCache> cache = {};
};

struct PlannedStep {
  FittedStep step;
  CacheUse cache = CacheUse::kOff;
  std::string cache_note = {};  // the error of the cache, if any
};

class StepPlanner {
 public:
  /// Creates a planner. The backend to which `question.fit` refers must outlive it.
  explicit StepPlanner(StepQuestion question);

  /// Returns the result of StepFitter::Fit for the budget. A cached plan is validated before it is
  /// used. If it is invalid, the step is planned, and `cache_note` is set. If the plan cannot be
  /// stored in the cache, only `cache_note` is set. Propagates errors of StepFitter::Fit and of
  /// `sources`.
  Result<PlannedStep> Plan();

  /// Returns the smallest budget for which Plan succeeds. The result is cached, too. Propagates
  /// errors of StepFitter::SmallestBudget and of `sources`.
  Result<Bytes> SmallestBudget();

  /// Returns the fitter, which also computes frontiers, the step without memory optimizations, and
  /// smallest budgets with other optimizations. The fitter does not use the cache.
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
