#ifndef STOWAGE_PLANNER_FIT_VARIANT_H_
#define STOWAGE_PLANNER_FIT_VARIANT_H_

// Fits one candidate for a training step into a budget.
//
// A candidate is a combination of a number of micro-batches, an amount of values in host memory, a
// choice of how iterations of loops are recomputed, and a level of recomputation inside bodies
// (planner/fit/grid.h). A Variant applies the candidate to a step and chooses the remaining
// recomputations. The results of a Variant do not depend on other variants, so a larger set of
// optimizations never costs more.
//
// A Variant searches a sample of the step (planner/fit/micro_batches/micro_batches.h). It creates
// the whole step only to verify that a choice fits.
//
//   STOWAGE_ASSIGN_OR_RETURN(const std::unique_ptr<Variant> variant, Variant::Make(...));
//   Result<std::optional<FittedStep>> fitted =
//       variant->Fit(64 << 20, Recompute::kAuto, /*limit=*/kAnyCost);

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/fit/recompute/bodies.h"
#include "planner/fit/recompute/iterations.h"
#include "planner/fit/recompute/recompute.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

/// A limit on costs that excludes nothing.
inline constexpr double kAnyCost = std::numeric_limits<double>::infinity();
/// A budget that everything fits.
inline constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

class Variant {
 public:
  struct Options {
    PlanOptions plan;
    RecomputeOptions recompute;  // The `cost` does not include copies.
    /// The cost of copying a byte between arena and host.
    double cost_per_byte = 0;
  };

  /// The loops whose iterations are recomputed, and the nodes with recomputation in their bodies.
  struct InBodies {
    std::vector<RecomputedLoop> loops = {};
    std::vector<LoweredNode> nodes = {};
  };
  /// Applies a candidate to `step`. Returns the changes to loops and branches.
  using Change = std::function<Result<InBodies>(SampledStep& step)>;

  /// Creates the variant of a step with `micro_batches` micro-batches. `sample` must be a sample of
  /// the step that `build` builds. `change` is applied to the sample, and to the whole step when it
  /// is built. Propagates errors of `change`, of PlanMemory and of RecomputeChoices::PlanAsGiven.
  static Result<std::unique_ptr<Variant>> Make(int64_t micro_batches,
                                               SampledStep sample,
                                               StepBuilder build, Change change,
                                               const Options& options);

  int64_t micro_batches() const { return micro_batches_; }
  /// Returns the sample to which the candidate has been applied.
  const Graph& sample() const { return sample_.graph; }
  /// Returns the size of the arena of the sample without further recomputation.
  Bytes arena() const { return arena_; }
  /// Returns the number of operations of the whole step without any recomputation.
  double flops() const { return flops_; }
  /// Returns the cost of the whole step without further recomputation. Includes copies and
  /// in_bodies_cost().
  double cost() const { return cost_; }
  /// Returns the cost of the candidate's recomputation in loops and branches.
  double in_bodies_cost() const { return in_bodies_cost_; }

  /// Returns the whole step with the cheapest recomputation that fits the budget, or nullopt if
  /// none fits or if the step costs at least `limit`.
  Result<std::optional<FittedStep>> Fit(Bytes budget, Recompute recompute,
                                        double limit);

  /// Like Fit, but without further recomputation. Returns nullopt if some values are always
  /// recomputed, unless `recompute` is kNone.
  Result<std::optional<FittedStep>> FitAsGiven(Bytes budget,
                                               Recompute recompute,
                                               double limit);

  /// Returns the smallest budget that the step fits, or nullopt if it is larger than `most`.
  Result<std::optional<Bytes>> Smallest(Recompute recompute, Bytes most);

  /// Like Smallest, but without further recomputation. Returns nullopt if some values are always
  /// recomputed, unless `recompute` is kNone.
  Result<std::optional<Bytes>> SmallestAsGiven(Recompute recompute, Bytes most);

  // The next two functions do slow work in advance, which several variants can do in parallel.
  // PrepareBounds prepares LeastExtraCost. PrepareChoices searches for recomputations, which Fit,
  // Smallest and Frontier need.
  Status PrepareBounds() { return choices_->Bound(); }
  Status PrepareChoices();

  /// Returns a lower bound on the cost of a step that fits `budget`, without a search. Stops as
  /// soon as the bound reaches `limit`.
  Result<double> LeastCost(Bytes budget, Recompute recompute, double limit);
  /// Returns a lower bound on the arena of the sample, without a search.
  Result<Bytes> LeastArena(Recompute recompute);

  /// Returns the Pareto points of the sample. The whole step may need slightly more memory. Here,
  /// Price::extra_cost includes only the cost of further recomputation, and Price::least_extra_cost
  /// is not set.
  Result<std::vector<ParetoPoint>> Frontier(Recompute recompute);

  /// Returns a lower bound on the extra cost of any further recomputation that fits the budget.
  Result<double> LeastExtraCost(Bytes budget) {
    return choices_->LeastExtraCost(budget);
  }

 private:
  Variant() = default;

  bool IsAsGiven(Recompute recompute) const;
  bool IsAllowed(const RecomputeChoice& choice, bool is_first,
                 Recompute recompute) const;
  Result<std::span<RecomputeChoice>> Choices(Recompute recompute);
  Result<Bytes> SampleArena(RecomputeChoice& choice);
  Result<RecomputedGraph> InLoop(RecomputeChoice& choice);
  RecomputedGraph InBodiesAgain() const;
  Result<FittedStep> Whole(RecomputeChoice& choice);
  Result<std::optional<FittedStep>> FitChoice(RecomputeChoice& choice,
                                              Bytes budget);
  Result<std::optional<Bytes>> Need(RecomputeChoice& choice, Bytes most);

  int64_t micro_batches_ = 1;
  SampledStep sample_;
  StepBuilder build_;
  Change change_;
  Options options_;
  std::unique_ptr<RecomputeChoices> choices_;
  RecomputeChoice given_;  // the choice without recomputation
  Bytes arena_ = 0;
  InBodies in_bodies_;  // changes to the sample
  double flops_ = 0;
  double cost_ = 0;
  double in_bodies_cost_ = 0;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_VARIANT_H_
