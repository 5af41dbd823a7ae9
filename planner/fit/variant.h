#ifndef STOWAGE_PLANNER_FIT_VARIANT_H_
#define STOWAGE_PLANNER_FIT_VARIANT_H_

// Fits one candidate for a training step into a budget.
//
// A candidate has a number of micro-batches, a share of the step in host memory, a choice of how
// iterations of loops are recomputed, and a level of recomputation inside bodies. A Variant chooses
// the remaining recomputations. Its results do not depend on other variants, so a larger set of
// optimizations never costs more.
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

inline constexpr double kAnyCost = std::numeric_limits<double>::infinity();
inline constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

class Variant {
 public:
  struct Options {
    PlanOptions plan;
    RecomputeOptions recompute;  // `cost` excludes copies
    double cost_per_byte = 0;    // of copies between arena and host
  };

  /// The loops whose iterations are recomputed, and the nodes with recomputation in their bodies.
  struct InBodies {
    std::vector<RecomputedLoop> loops = {};
    std::vector<LoweredNode> nodes = {};
  };
  /// Applies the candidate to a step, except for the remaining recomputations. Returns the changes
  /// to loops and branches.
  using Change = std::function<Result<InBodies>(SampledStep& step)>;

  /// Returns the variant of `sample`, a sample of the step that `build` has built. `change` is
  /// applied to it first. Propagates errors of `change`, of PlanMemory, and for names as in
  /// RecomputeChoices::PlanAsGiven.
  static Result<std::unique_ptr<Variant>> Make(int64_t micro_batches,
                                               SampledStep sample,
                                               StepBuilder build, Change change,
                                               const Options& options);

  int64_t micro_batches() const { return micro_batches_; }
  const Graph& sample() const { return sample_.graph; }
  /// Returns the arena of the sample without recomputation.
  Bytes arena() const { return arena_; }
  /// Returns the operations, or the cost, of the whole step without recomputation. The cost
  /// includes in_bodies_cost(), the cost of recomputation in loops and branches.
  double flops() const { return flops_; }
  double cost() const { return cost_; }
  double in_bodies_cost() const { return in_bodies_cost_; }

  /// Returns the whole step with the cheapest recomputation that fits the budget, if it costs less
  /// than `limit`.
  Result<std::optional<FittedStep>> Fit(Bytes budget, Recompute recompute,
                                        double limit);

  /// Like Fit, but without recomputation. Returns nothing if some values are always recomputed,
  /// unless `recompute` is kNone.
  Result<std::optional<FittedStep>> FitAsGiven(Bytes budget,
                                               Recompute recompute,
                                               double limit);

  /// Returns the smallest budget that Fit accepts, if it is at most `most`.
  Result<std::optional<Bytes>> Smallest(Recompute recompute, Bytes most);

  /// Like Smallest, but without recomputation. Returns nothing if some values are always
  /// recomputed, unless `recompute` is kNone.
  Result<std::optional<Bytes>> SmallestAsGiven(Recompute recompute, Bytes most);

  // Slow preparations, which several variants can run in parallel. PrepareBounds prepares
  // LeastExtraCost. PrepareChoices prepares all functions that recompute.
  Status PrepareBounds() { return choices_->Bound(); }
  Status PrepareChoices();

  // Lower bounds that do not require a search. LeastCost bounds the cost within a budget, and stops
  // as soon as the bound reaches `limit`. LeastArena bounds the arena.
  Result<double> LeastCost(Bytes budget, Recompute recompute, double limit);
  Result<Bytes> LeastArena(Recompute recompute);

  /// Returns the Pareto points of the sample. The whole step may need slightly more memory. The
  /// extra costs include only recomputation. The caller sets least_extra_cost.
  Result<std::vector<ParetoPoint>> Frontier(Recompute recompute);

  /// Returns a lower bound on the extra cost of any recomputation that fits the budget.
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
