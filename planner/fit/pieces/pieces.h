#ifndef STOWAGE_PLANNER_FIT_PIECES_PIECES_H_
#define STOWAGE_PLANNER_FIT_PIECES_PIECES_H_

// Chooses into how many pieces a step takes its batch, and what it recomputes
// in each of them, so that the arena fits a budget at the least cost.
//
// Pieces run one after the other, their gradients add up, and only one piece's
// activations are alive at a time. More pieces need less for these, but the sums
// of gradients have to live from one to the next; recomputation needs no sums,
// and operations instead. Which mixture is cheapest depends on the budget: all
// numbers of pieces that are allowed are looked at, those aside of which a bound
// says that they cannot win.
//
// Between the first piece and the last, pieces of one size do the same. So a
// step is planned as a *sample* that has one piece of each kind, whose nodes cost
// as much as all pieces of the kind together. The sample has the peak of the
// whole step, and what is chosen for one of its pieces is done in all that are
// like it: the effort does not grow with the number of pieces.
//
//   MicroBatchPlanner planner({1, 2, 4, 8}, build, {.weights = &weights});
//   Result<MicroBatchedPlan> fitted = planner.PlanFor(64 << 20);
//   if (fitted.ok()) fitted->pieces;

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan_memory.h"
#include "planner/fit/recompute/recompute.h"
#include "planner/fit/recompute/rehearsal.h"

namespace stowage::fit {

/// A step of one or more pieces.
struct PiecedStep {
  Graph graph;
  /// By piece: its first node, and how many pieces of the step it stands for.
  std::vector<NodeId> begins = {0};
  std::vector<int64_t> counts = {1};
};

/// Builds the step of so many pieces: all of them, or one of each kind. It may
/// always build all.
enum class Sampling : uint8_t { kAll, kOneOfAKind };
using PieceBuilder =
    std::function<Result<PiecedStep>(int64_t pieces, Sampling sampling)>;

/// What `script` runs again in a piece of `sample`, run again in every piece of
/// `step` that is like it: whose nodes, views aside, have the same ops and types.
/// Error kInvalidArgument: a piece of `step` is like none, or the script mixes
/// pieces.
Result<Script> StretchScript(const PiecedStep& sample, const Script& script,
                             const PiecedStep& step);

struct MicroBatchedPlan {
  int64_t pieces = 1;
  RecomputedPlan made = {};
  double flops = 0;  // of the step before recomputation
  double cost = 0;   // likewise, by RecomputeOptions::cost
};

/// One bargain: the smallest budget it fits, and what it costs.
struct MicroBatchedPoint {
  int64_t pieces = 1;
  FrontierPoint point;  // what is extra, beyond the step of fewest pieces
};

/// Of a budget that is looked for.
inline constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();

class MicroBatchPlanner {
 public:
  /// `pieces`: the numbers that are allowed, rising, at least one. What
  /// `options` points at must outlive this; its budget is not looked at.
  MicroBatchPlanner(std::vector<int64_t> pieces, PieceBuilder build,
                    PlanOptions options, RecomputeOptions recompute = {});

  /// The cheapest plan found that fits the budget; the fewest pieces, nothing
  /// recomputed, without one. Errors: kBudgetTooSmall, which names the smallest
  /// budgets; the builder's and those of RecomputePlanner.
  Result<MicroBatchedPlan> PlanFor(std::optional<Bytes> budget);

  /// The plan of fewest pieces as it is, whatever the budget.
  Result<MicroBatchedPlan> PlanAsGiven();

  /// The smallest budget that PlanFor would not refuse with this much
  /// recomputation; in so many pieces, one of the numbers that are allowed.
  Result<Bytes> SmallestBudget(Recompute recompute);
  Result<Bytes> SmallestBudget(Recompute recompute, int64_t pieces);
  /// The same where that is at most `most`, which bounds mostly tell without a
  /// search.
  Result<std::optional<Bytes>> SmallestBudgetWithin(Bytes most,
                                                    Recompute recompute);

  /// All bargains, by falling arena and rising cost.
  Result<std::vector<MicroBatchedPoint>> Frontier();

 private:
  struct Sample {
    int64_t pieces;
    PiecedStep step;
    std::unique_ptr<RecomputePlanner> planner;
    Bytes arena = 0;   // as it is
    double flops = 0;  // of the whole step
    double cost = 0;   // likewise
  };

  struct Least {
    size_t index = 0;  // of pieces_
    Bytes bytes = 0;
  };

  Result<Sample*> GetSample(size_t index);
  Result<MicroBatchedPlan> Make(const Sample& sample, RecomputedPlan made);
  Result<std::optional<MicroBatchedPlan>> FitSample(Sample& sample,
                                                    Bytes budget, double limit);
  Error Refusal(const Sample& sample, Bytes budget);
  Result<std::optional<Least>> SmallestWithin(Bytes most, Recompute recompute);
  Result<Bytes> SmallestOf(Sample& sample, Recompute recompute);

  const std::vector<int64_t> pieces_;
  const PieceBuilder build_;
  PlanOptions options_;
  const RecomputeOptions recompute_;
  std::vector<std::unique_ptr<Sample>> samples_;  // by index of pieces_
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_PIECES_PIECES_H_
