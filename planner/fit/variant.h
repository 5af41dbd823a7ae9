#ifndef STOWAGE_PLANNER_FIT_VARIANT_H_
#define STOWAGE_PLANNER_FIT_VARIANT_H_

// A candidate for a training step: a number of micro-batches, a share of the step on the host,
// iterations of loops recomputed or not, and a level of recomputation inside bodies. Only the
// other recomputations remain to be chosen.
//
// The answers of a variant do not depend on other variants; therefore more optimizations never
// cost more.
//
//   STOWAGE_ASSIGN_OR_RETURN(Variant variant, Variant::Make(...));
//   Result<std::optional<FittedStep>> fitted =
//       variant.Fit(64 << 20, Recompute::kAuto, /*limit=*/kAnyCost);

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

inline constexpr double kAnyCost = std::numeric_limits<double>::infinity();
inline constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

class Variant {
 public:
  struct Options {
    PlanOptions plan;
    RecomputeOptions recompute;  // its cost without copies
    double cost_per_byte = 0;    // of copies
  };

  /// The loops whose iterations are recomputed, and the nodes with recomputation in bodies.
  struct InBodies {
    std::vector<RecomputedLoop> loops = {};
    std::vector<LoweredNode> nodes = {};
  };
  /// Applies a variant to a step, except for the remaining recomputation; returns the changes
  /// to loops and branches.
  using Change = std::function<Result<InBodies>(SampledStep& step)>;

  /// The variant of `sample`, which `build` has built with one micro-batch of each kind and
  /// `change` then changes. Errors: those of `change`, PlanMemory's, and those of names.
  static Result<std::unique_ptr<Variant>> Make(int64_t micro_batches,
                                               SampledStep sample,
                                               StepBuilder build, Change change,
                                               const Options& options);

  int64_t micro_batches() const { return micro_batches_; }
  const Graph& sample() const { return sample_.graph; }
  /// The arena of the sample without recomputation.
  Bytes arena() const { return arena_; }
  /// Operations and cost of the whole step without recomputation; the cost includes
  /// in_bodies_cost(), that of recomputation in loops and branches.
  double flops() const { return flops_; }
  double cost() const { return cost_; }
  double in_bodies_cost() const { return in_bodies_cost_; }

  /// The whole step with the cheapest recomputation that fits the budget, if it costs less
  /// than `limit`.
  Result<std::optional<FittedStep>> Fit(Bytes budget, Recompute recompute,
                                        double limit);

  /// The same without recomputation, if that is allowed.
  Result<std::optional<FittedStep>> FitAsGiven(Bytes budget,
                                               Recompute recompute,
                                               double limit);

  /// The smallest budget that Fit takes, if that is at most `most`.
  Result<std::optional<Bytes>> Smallest(Recompute recompute, Bytes most);

  /// The same without recomputation, if that is allowed.
  Result<std::optional<Bytes>> SmallestAsGiven(Recompute recompute, Bytes most);

  // Slow preparations, which many variants can make in parallel: of LeastExtraCost, and of all
  // that recomputes.
  Status PrepareBounds() { return choices_->Bound(); }
  Status PrepareChoices();

  // Lower bounds, without a search: on the cost within a budget, up to `limit`, and on the arena.
  Result<double> LeastCost(Bytes budget, Recompute recompute, double limit);
  Result<Bytes> LeastArena(Recompute recompute);

  /// The Pareto points of the sample; the whole step may need slightly more. Extra costs are
  /// those of recomputation; least_extra_cost is left to the caller.
  Result<std::vector<ParetoPoint>> Frontier(Recompute recompute);

  /// A lower bound on the extra cost of any recomputation that fits the budget.
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
  RecomputeChoice given_;  // without recomputation
  Bytes arena_ = 0;
  InBodies in_bodies_;  // of the sample
  double flops_ = 0;
  double cost_ = 0;
  double in_bodies_cost_ = 0;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_VARIANT_H_
