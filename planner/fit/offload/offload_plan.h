#ifndef STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_PLAN_H_
#define STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_PLAN_H_

// Chooses what of a training step to keep in the host's memory
// (planner/fit/offload/offload.h), into how many pieces to take the batch, and what to
// recompute, so that the arena fits a budget at the least cost.
//
// A copied byte has a price in operations, or whatever recomputation is priced
// in, as if no copy ran beside a kernel. So what a little recomputation can do
// is left to it, and what it can do only by running whole layers again, or not
// at all, is moved. What is moved is decided first, in a few steps from nothing
// to everything; pieces and recomputation plan the step that is left; and where
// the budget leaves room, it is fetched early (planner/fit/prefetch/prefetch.h).
//
//   OffloadPlanner planner({1}, OfGraph(step), {.weights = &weights},
//                          {.offload = OffloadChoice::kAuto});
//   Result<MicroBatchedPlan> fitted = planner.PlanFor(64 << 20);
//   fitted->made.plan.host_bytes();

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/pieces/pieces.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "planner/fit/recompute/recompute.h"
#include "planner/fit/recompute/rehearsal.h"
#include "planner/weight_layout.h"

namespace stowage::fit {

/// What may be kept on the host to fit a budget: nothing, or states and forward
/// values.
enum class OffloadChoice : uint8_t { kNone, kAuto };
/// "none", "auto".
std::string_view OffloadName(OffloadChoice choice);
/// Error kInvalidArgument for anything but these.
Result<OffloadChoice> ParseOffload(std::string_view name);

/// What copying a byte between arena and host is taken to cost, in operations:
/// a device that does 200 TFLOP/s in matrix products beside a link of 25 GB/s
/// (PCIe 4.0), or one of 400 beside 50.
inline constexpr double kOffloadFlopsPerByte = 8000;

struct OffloadOptions {
  OffloadChoice offload = OffloadChoice::kAuto;
  RecomputeOptions recompute = {};
  double cost_per_byte = kOffloadFlopsPerByte;  // in recompute.cost's unit
};

/// One bargain: the smallest budget it fits, what it costs, and what it keeps on
/// the host.
struct OffloadedPoint {
  int64_t pieces = 1;
  /// What is extra, copies included, beyond the step of fewest pieces. The least
  /// is of what runs again: with the same on the host, no recomputation in any of
  /// the numbers of pieces costs less.
  FrontierPoint point;
  HostUse host;
};

/// A graph as it is, as a step of one piece.
PieceBuilder OfGraph(Graph graph);

class OffloadPlanner {
 public:
  /// As MicroBatchPlanner, save that the states of the weight layout that
  /// `options` points at may move.
  OffloadPlanner(std::vector<int64_t> pieces, PieceBuilder build,
                 const PlanOptions& options, OffloadOptions offload = {});
  OffloadPlanner(const OffloadPlanner&) = delete;  // points into itself
  OffloadPlanner& operator=(const OffloadPlanner&) = delete;

  /// The cheapest plan found that fits `budget`; nothing is moved where nothing
  /// has to be. Copies count in the cost of the step. A larger budget never
  /// costs more. Errors: kBudgetTooSmall, which names the smallest budgets;
  /// those of MicroBatchPlanner.
  Result<MicroBatchedPlan> PlanFor(std::optional<Bytes> budget);

  /// The plan of fewest pieces as it is, whatever the budget.
  Result<MicroBatchedPlan> PlanAsGiven();

  /// The smallest budget that PlanFor would not refuse with these levers.
  Result<Bytes> SmallestBudget(OffloadChoice offload, Recompute recompute);

  /// All bargains, by falling arena and rising cost. Where only states are moved
  /// PlanFor may find one between two of these.
  Result<std::vector<OffloadedPoint>> Frontier();

 private:
  // What is moved: the first of the states, and of the forward values 0, 1 or 2
  // halves, of their bytes. Where the batch is in pieces, 2 in place of 1: all
  // pieces have to be alike.
  struct Share {
    size_t states = 0;
    int halves = 0;
    friend bool operator==(const Share&, const Share&) = default;
  };
  struct Level {
    Share share;
    std::unique_ptr<MicroBatchPlanner> planner;
  };

  Status Prepare();
  CostFn Cost() const;
  std::unique_ptr<MicroBatchPlanner> PlannerOf(Share share) const;
  Result<PiecedStep> Build(int64_t pieces, Sampling sampling,
                           Share share) const;
  std::span<const Level> Allowed(OffloadChoice offload) const;
  Result<std::optional<MicroBatchedPlan>> FitLevel(MicroBatchPlanner& planner,
                                                   Bytes budget) const;
  Result<std::optional<MicroBatchedPlan>> FitByStates(Bytes budget) const;
  Result<MicroBatchedPlan> Cheapest(Bytes budget);
  Error Refusal(Bytes budget);

  const std::vector<int64_t> pieces_;
  const PieceBuilder build_;
  PlanOptions options_;
  const OffloadOptions offload_;
  std::optional<WeightLayout> params_;  // the weight layout without its states
  std::vector<Bytes> states_;           // that may move, falling
  std::vector<Level> levels_;           // more and more is moved
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_PLAN_H_
