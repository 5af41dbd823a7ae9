#ifndef STOWAGE_TRAIN_STEP_PLANNER_H_
#define STOWAGE_TRAIN_STEP_PLANNER_H_

// Fits a step into a budget (planner/fit/fit.h), or returns the cached result of an equal
// question.
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

/// The step to plan, and the options.
struct StepQuestion {
  StepBuilder build = {};
  /// All graphs from which `build` builds; called only with a cache.
  std::function<Result<std::vector<Graph>>()> sources = {};
  /// Everything else on which the results of `build` depend, as text.
  std::string settings = {};
  FitOptions fit = {};
  std::optional<Bytes> budget = {};
  /// If given, the cost of optimizations is time (FitOptions::cost).
  std::optional<OpTimes> op_times = {};
  /// Unused if the packer has a deadline or `fit` a custom cost.
  std::optional<PlanCache> cache = {};
};

struct PlannedStep {
  FittedStep step;
  CacheUse cache = CacheUse::kOff;
  std::string cache_note = {};  // the error of a cache entry
};

class StepPlanner {
 public:
  /// The backend of the question's options must outlive this.
  explicit StepPlanner(StepQuestion question);

  /// The result of StepFitter::Fit for the budget. A cached plan is validated like any other,
  /// and planned anew if it is damaged.
  Result<PlannedStep> Plan();

  /// The smallest budget that Plan does not refuse; cached, too.
  Result<Bytes> SmallestBudget();

  /// For frontiers, the unmodified step, and the smallest budgets of other optimizations.
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

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_PLANNER_H_
