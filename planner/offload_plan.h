#ifndef STOWAGE_PLANNER_OFFLOAD_PLAN_H_
#define STOWAGE_PLANNER_OFFLOAD_PLAN_H_

// Fits a training step into a budget by keeping some of it in the host's memory
// (planner/offload.h), or by recomputing some of it, or both: whatever costs
// least.
//
// A copied byte has a price in operations, or whatever recomputation is priced
// in, as if no copy ran beside a kernel. So what a little recomputation can do is left to it, and what
// it can do only by running whole layers again, or not at all, is moved.
//
//   OffloadPlanner planner(step, {.weights = &weights});
//   Result<OffloadedPlan> fitted = planner.PlanFor(64 << 20);
//   fitted->step.graph;  fitted->moved;  fitted->bytes_per_step;

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/offload.h"
#include "planner/plan_memory.h"
#include "planner/recompute.h"
#include "planner/weight_layout.h"

namespace stowage {

/// What may be kept on the host to fit the budget: nothing, or states and forward
/// values.
enum class OffloadChoice : uint8_t { kNone, kAuto };
/// Error kInvalidArgument for anything but "none" and "auto".
Result<OffloadChoice> ParseOffload(std::string_view name);

/// What copying a byte between arena and host is taken to cost, in operations: a
/// device that does 200 TFLOP/s in matrix products beside a link of 25 GB/s
/// (PCIe 4.0), or one of 400 beside 50.
inline constexpr double kOffloadFlopsPerByte = 8000;

struct OffloadOptions {
  RecomputeOptions recompute = {};
  double cost_per_byte = kOffloadFlopsPerByte;  // in recompute.cost's unit
};

struct OffloadedPlan {
  RecomputedPlan step;  // its plan counts the host's bytes beside the arena
  std::vector<Offloadable> moved;  // of the graph that was given
  Bytes bytes_per_step = 0;        // copied, there and back
  double cost = 0;                 // of what runs again, and of the copies
};

class OffloadPlanner {
 public:
  /// `graph` and what `options` points at must outlive this. Options' budget is
  /// not looked at, nor where its weight layout has the states: they may move.
  OffloadPlanner(const Graph& graph, const PlanOptions& options,
                 OffloadOptions offload = {});
  OffloadPlanner(const OffloadPlanner&) = delete;  // points into itself
  OffloadPlanner& operator=(const OffloadPlanner&) = delete;

  /// The cheapest plan found that fits `budget`; nothing is moved where nothing
  /// has to be. A larger budget never costs more. Errors: kBudgetTooSmall, which
  /// names the smallest budgets with each lever and with both; those of
  /// RecomputePlanner.
  Result<OffloadedPlan> PlanFor(std::optional<Bytes> budget);

  /// The smallest budget that PlanFor would not refuse with this much
  /// recomputation.
  Result<Bytes> SmallestBudget(Recompute recompute);

  /// What PlanFor says of a budget that it refuses.
  Error Refusal(Bytes budget);

 private:
  // The first `count` of all_ moved, and whatever recomputation does to that.
  struct Level {
    std::vector<Offloadable> moved;
    Graph graph;
    std::optional<RecomputePlanner> planner;
  };

  Status Prepare();
  Result<std::unique_ptr<Level>> MakeLevel(std::vector<Offloadable> moved);
  Result<std::optional<OffloadedPlan>> FitLevel(Level& level, Bytes budget);
  Result<bool> Fits(const std::vector<Offloadable>& moved, Bytes budget);
  Result<std::optional<OffloadedPlan>> FitByMovingAlone(Bytes budget);
  double CostOf(const std::vector<Offloadable>& moved) const;

  const Graph& graph_;
  PlanOptions options_;
  const OffloadOptions offload_;
  std::optional<WeightLayout> params_;  // options_.weights without states
  std::vector<Offloadable> all_;
  std::vector<std::unique_ptr<Level>> levels_;  // more and more of all_ moved
};

}  // namespace stowage

#endif  // STOWAGE_PLANNER_OFFLOAD_PLAN_H_
