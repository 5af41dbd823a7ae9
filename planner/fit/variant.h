#ifndef STOWAGE_PLANNER_FIT_VARIANT_H_
#define STOWAGE_PLANNER_FIT_VARIANT_H_

// One way to take a training step: in so many micro-batches, with so much of it on the
// host, the iterations of its loops made again or not, and so much run again inside its
// bodies. What is left to decide is what else runs again in it.
//
// What a variant answers depends on nothing but itself: not on which other
// variants are looked at beside it. That is why more optimizations never cost more.
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

  /// The loops whose iterations are made again, and the nodes in whose bodies something runs
  /// again.
  struct InBodies {
    std::vector<RecomputedLoop> loops = {};
    std::vector<LoweredNode> nodes = {};
  };
  /// What a variant does to a step before it is known what runs again besides; returned
  /// is what is done to its loops and branches.
  using Change = std::function<Result<InBodies>(SampledStep& step)>;

  /// Of `sample`, what `build` makes of one micro-batch of each kind, which is changed
  /// here. Errors: those of `change`, PlanMemory's, and those of names.
  static Result<std::unique_ptr<Variant>> Make(int64_t micro_batches,
                                               SampledStep sample,
                                               StepBuilder build, Change change,
                                               const Options& options);

  int64_t micro_batches() const { return micro_batches_; }
  const Graph& sample() const { return sample_.graph; }
  /// Of the sample as it is.
  Bytes arena() const { return arena_; }
  /// Of the whole step before anything runs again: operations; and the cost, that of what
  /// runs again in loops and branches, the next one, included.
  double flops() const { return flops_; }
  double cost() const { return cost_; }
  double in_bodies_cost() const { return in_bodies_cost_; }

  /// The whole step, with the least run again that fits it into the budget, if
  /// it then costs less than `limit`.
  Result<std::optional<FittedStep>> Fit(Bytes budget, Recompute recompute,
                                        double limit);

  /// The same where nothing runs again, if that is allowed.
  Result<std::optional<FittedStep>> FitAsGiven(Bytes budget,
                                               Recompute recompute,
                                               double limit);

  /// The smallest budget that Fit takes, if that is at most `most`.
  Result<std::optional<Bytes>> Smallest(Recompute recompute, Bytes most);

  /// The same where nothing runs again, if that is allowed.
  Result<std::optional<Bytes>> SmallestAsGiven(Recompute recompute, Bytes most);

  // What others need first, to be had for many variants at once: for frontiers,
  // and for what runs again.
  Status PrepareBounds() { return choices_->Bound(); }
  Status PrepareChoices();

  // Bounds, without a search: what the step costs at least within a budget, as far
  // as that is below `limit`, and what it needs at least.
  Result<double> LeastCost(Bytes budget, Recompute recompute, double limit);
  Result<Bytes> LeastArena(Recompute recompute);

  /// What budgets cost: extra is what runs again here, and least_extra_cost is
  /// left to the caller. Of the sample, which the whole step may need a little
  /// more than.
  Result<std::vector<ParetoPoint>> Frontier(Recompute recompute);

  /// What no recomputation that fits the budget can do without.
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
  RecomputeChoice given_;  // nothing runs again
  Bytes arena_ = 0;
  InBodies in_bodies_;  // of the sample
  double flops_ = 0;
  double cost_ = 0;
  double in_bodies_cost_ = 0;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_VARIANT_H_
