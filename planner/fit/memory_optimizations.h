#ifndef STOWAGE_PLANNER_FIT_MEMORY_OPTIMIZATIONS_H_
#define STOWAGE_PLANNER_FIT_MEMORY_OPTIMIZATIONS_H_

// Names the memory optimizations that may fit a training step into a budget, and the result of
// applying them. Optimizations do not change the results of a step, except that micro-batches round
// sums differently.
//
//   MemoryOptimizations optimizations;                       // recompute, offload and tiles
//   optimizations.micro_batches = MicroBatchesToTry(batch);  // and micro-batches
//   optimizations.recompute = Recompute::kCheap;             // only cheap recomputation
//
// A larger set of optimizations accepts every budget that a smaller set accepts, at no higher cost.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan.h"

namespace stowage {

/// The values that may be recomputed. kNone recomputes nothing. kCheap adds at most kCheapShare to
/// the cost, which is enough for elementwise ops and norms. kAuto may recompute any value.
enum class Recompute : uint8_t { kNone, kCheap, kAuto };
/// Returns "none", "cheap" or "auto".
std::string_view RecomputeName(Recompute recompute);
/// Returns kInvalidArgument if `name` is not one of these.
Result<Recompute> ParseRecompute(std::string_view name);

/// The maximum share that kCheap may add to the cost of a step.
inline constexpr double kCheapShare = 0.01;

/// The values that may be offloaded. kNone offloads nothing. kAuto may offload states, forward
/// values and frozen params to host memory. kDisk may offload these and trained params to a file on
/// disk.
enum class OffloadChoice : uint8_t { kNone, kAuto, kDisk };
/// Returns "none", "auto" or "disk".
std::string_view OffloadName(OffloadChoice choice);
/// Returns kInvalidArgument if `name` is not one of these.
Result<OffloadChoice> ParseOffload(std::string_view name);

/// The order in which nodes run. kGiven keeps the given order. kMemory also searches for an order
/// that needs less memory. It uses this order if the step then costs less, or costs the same with
/// no larger arena.
enum class NodeOrder : uint8_t { kGiven, kMemory };
/// Returns "given" or "memory".
std::string_view NodeOrderName(NodeOrder order);
/// Returns kInvalidArgument if `name` is not one of these.
Result<NodeOrder> ParseNodeOrder(std::string_view name);

/// The tiles of rows in which logits are computed. kNone keeps the tiles of the step. kAuto may use
/// smaller tiles (planner/fit/tiles).
enum class Tiles : uint8_t { kNone, kAuto };
/// Returns "none" or "auto".
std::string_view TilesName(Tiles tiles);
/// Returns kInvalidArgument if `name` is not one of these.
Result<Tiles> ParseTiles(std::string_view name);

struct MemoryOptimizations {
  /// The numbers of micro-batches to try, in ascending order. At least one.
  std::vector<int64_t> micro_batches = {1};
  Recompute recompute = Recompute::kAuto;
  /// Names of values that are always kept, and of values that are always recomputed. The name of a
  /// view refers to the value that it views. Ignored with Recompute::kNone.
  std::vector<std::string> always_kept = {};
  std::vector<std::string> always_recomputed = {};
  OffloadChoice offload = OffloadChoice::kAuto;
  NodeOrder order = NodeOrder::kGiven;
  Tiles tiles = Tiles::kAuto;
};

/// An optimization that is selected by name, for command lines and caches.
struct OptimizationInfo {
  std::string_view name;  // for example "recompute"
  std::string_view help;
  /// Returns kInvalidArgument if `choice` is not a choice of the optimization.
  Status (*set)(MemoryOptimizations& optimizations, std::string_view choice);
  std::string_view (*get)(const MemoryOptimizations& optimizations);
};
/// Returns all optimizations except micro-batches and names of values.
std::span<const OptimizationInfo> OptimizationTable();

/// Returns a string that identifies `optimizations`. Different optimizations give different
/// strings.
std::string ToText(const MemoryOptimizations& optimizations);

/// Returns no optimizations.
inline MemoryOptimizations NoOptimizations() {
  return {.recompute = Recompute::kNone,
          .offload = OffloadChoice::kNone,
          .tiles = Tiles::kNone};
}

/// Returns every optimization for a batch of this size, except the order, whose search is slow.
MemoryOptimizations AllOptimizations(int64_t batch);

/// The maximum number of micro-batches of a step. The number of nodes, and the time and memory of
/// planning, grow with the number of micro-batches.
inline constexpr int64_t kMaxMicroBatches = 1024;

/// Returns the numbers of micro-batches to try: 1, 2, 4, ... and `batch` itself, up to
/// kMaxMicroBatches.
std::vector<int64_t> MicroBatchesToTry(int64_t batch);

// The following types describe the result of optimizations: the step to run, its plan, and its
// overhead relative to the unmodified step.

/// A recomputed node.
struct RecomputedNode {
  /// The name of its first dropped result. In a body, "<value>@<first result of the body's node>".
  std::string name;
  Bytes freed = 0;   // bytes of its results that would otherwise be kept
  double flops = 0;  // of its recomputations and those that they require
  int times = 0;     // number of times that it is recomputed
};

/// One pass of the pipeline (planner/fit/fit.h).
struct PassReport {
  std::string name;      // for example "recompute"
  bool applied = false;  // the pass was necessary and allowed
  bool changed = false;  // the pass changed the step
  Bytes arena = 0;       // after the pass
  double seconds = 0;
};

/// The overhead of fitting a budget.
struct Price {
  int64_t micro_batches = 1;
  fit::HostUse host = {};
  int64_t tile_rows = 0;     // rows of logits at a time, 0 if unmodified
  int recomputed_nodes = 0;  // without views
  double extra_flops = 0;    // operations of recomputation
  double extra_percent = 0;  // extra_flops in percent of the step's operations
  /// The cost of recomputation, in the unit of FitOptions::cost.
  double extra_cost = 0;
  /// A lower bound on extra_cost over all recomputations that fit the budget, if the nodes keep
  /// their order and the same values are in host memory. It assumes that bodies need as little
  /// memory as they can, at no cost (planner/fit/recompute/bodies.h). 0 without a budget.
  double least_extra_cost = 0;
};

/// A Pareto point. `arena` is the smallest budget that it fits. `price` is its overhead relative to
/// the step with the fewest micro-batches. extra_cost includes micro-batches and copies, and
/// extra_flops includes micro-batches.
struct ParetoPoint {
  Bytes arena = 0;
  Price price;
};

struct FittedStep {
  Graph graph;
  Plan plan;  // for `graph`
  Price price;
  double flops =
      0;  // of the step with its micro-batches, without recomputation
  /// The cost of that step in the unit of FitOptions::cost, including copies.
  double cost = 0;
  std::vector<RecomputedNode> recomputed = {};  // most bytes freed first
  /// A lower bound on the arena over all orders of the nodes outside bodies. Absent if no order was
  /// searched.
  std::optional<Bytes> order_bound = {};
  std::vector<PassReport> passes = {};  // in execution order

  double total_cost() const { return cost + price.extra_cost; }
};

}  // namespace stowage

namespace stowage::fit {

/// Measures how long each pass takes. No decision depends on it.
class PassClock {
 public:
  /// Returns the seconds since the last call, or since construction if this is the first call.
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> lap = now - last_;
    last_ = now;
    return lap.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ =
      std::chrono::steady_clock::now();
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_MEMORY_OPTIMIZATIONS_H_
