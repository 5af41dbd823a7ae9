#ifndef STOWAGE_PLANNER_FIT_MEMORY_OPTIMIZATIONS_H_
#define STOWAGE_PLANNER_FIT_MEMORY_OPTIMIZATIONS_H_

// Defines the options that select memory optimizations for a training step, and the types that
// describe a step to which they have been applied. StepFitter (planner/fit/fit.h) applies them.
// Optimizations do not change the results of a step, except that micro-batches round sums
// differently.
//
//   MemoryOptimizations optimizations;                       // recompute, offload and tiles
//   optimizations.micro_batches = MicroBatchesToTry(batch);  // and micro-batches
//   optimizations.recompute = Recompute::kCheap;             // only cheap recomputation
//
// A step with a larger set of optimizations fits every budget that it fits with a smaller set, at
// no higher cost.

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
/// the cost, which is enough to recompute elementwise ops and normalization layers. kAuto may
/// recompute any value.
enum class Recompute : uint8_t { kNone, kCheap, kAuto };
/// Returns "none", "cheap" or "auto".
std::string_view RecomputeName(Recompute recompute);
/// Returns the choice with this name, or kInvalidArgument if there is none.
Result<Recompute> ParseRecompute(std::string_view name);

/// The maximum cost that kCheap may add, as a share of the cost of a step. Values that are always
/// recomputed may exceed it.
inline constexpr double kCheapShare = 0.01;

/// The values that may be offloaded. kNone offloads nothing. kAuto may offload states, forward
/// values and frozen params to host memory. kDisk may offload these and trained params to a file on
/// disk.
enum class OffloadChoice : uint8_t { kNone, kAuto, kDisk };
/// Returns "none", "auto" or "disk".
std::string_view OffloadName(OffloadChoice choice);
/// Returns the choice with this name, or kInvalidArgument if there is none.
Result<OffloadChoice> ParseOffload(std::string_view name);

/// The order in which nodes run. kGiven keeps the given order. kMemory also searches for an order
/// that needs less memory (planner/fit/order). The order that was found is used if the step then
/// costs less, or costs the same with no larger arena.
enum class NodeOrder : uint8_t { kGiven, kMemory };
/// Returns "given" or "memory".
std::string_view NodeOrderName(NodeOrder order);
/// Returns the order with this name, or kInvalidArgument if there is none.
Result<NodeOrder> ParseNodeOrder(std::string_view name);

/// The tiles of rows in which logits are computed. kNone keeps the tiles of the step. kAuto may use
/// smaller tiles (planner/fit/tiles).
enum class Tiles : uint8_t { kNone, kAuto };
/// Returns "none" or "auto".
std::string_view TilesName(Tiles tiles);
/// Returns the choice with this name, or kInvalidArgument if there is none.
Result<Tiles> ParseTiles(std::string_view name);

struct MemoryOptimizations {
  /// The numbers of micro-batches to try, in ascending order. Must not be empty.
  std::vector<int64_t> micro_batches = {1};
  Recompute recompute = Recompute::kAuto;
  /// Names of values that are always kept, and of values that are always recomputed. The name of a
  /// view refers to the value that it views. With Recompute::kNone, the names have no effect, but
  /// they must still refer to values that can be recomputed.
  std::vector<std::string> always_kept = {};
  std::vector<std::string> always_recomputed = {};
  OffloadChoice offload = OffloadChoice::kAuto;
  NodeOrder order = NodeOrder::kGiven;
  Tiles tiles = Tiles::kAuto;
};

/// An optimization whose choices have names, for command lines and caches.
struct OptimizationInfo {
  std::string_view name;  // for example "recompute"
  std::string_view help;
  /// Sets the optimization to the choice with this name. Returns kInvalidArgument if there is none.
  Status (*set)(MemoryOptimizations& optimizations, std::string_view choice);
  /// Returns the name of the current choice.
  std::string_view (*get)(const MemoryOptimizations& optimizations);
};
/// Returns all members of MemoryOptimizations whose choices have names, that is, all except
/// micro-batches and names of values.
std::span<const OptimizationInfo> OptimizationTable();

/// Returns a string that identifies `optimizations`. Different optimizations have different
/// strings.
std::string ToText(const MemoryOptimizations& optimizations);

/// Returns options that select no optimization.
inline MemoryOptimizations NoOptimizations() {
  return {.recompute = Recompute::kNone,
          .offload = OffloadChoice::kNone,
          .tiles = Tiles::kNone};
}

/// Returns options that select every optimization for a batch of this size, except the order of
/// nodes, whose search is slow. Requires `batch >= 1`.
MemoryOptimizations AllOptimizations(int64_t batch);

/// The maximum number of micro-batches of a step. The number of nodes, and the time and memory of
/// planning, grow with the number of micro-batches.
inline constexpr int64_t kMaxMicroBatches = 1024;

/// Returns the numbers of micro-batches to try: the powers of two below `batch` and `batch` itself.
/// If `batch` is larger than kMaxMicroBatches, the result is the result for kMaxMicroBatches.
/// Requires `batch >= 1`.
std::vector<int64_t> MicroBatchesToTry(int64_t batch);

// The following types describe the result of optimizations: the step to run, its plan, and its
// overhead relative to the unmodified step.

/// A recomputed node.
struct RecomputedNode {
  /// The name of its first dropped result. In a body, "<value>@<first result of the body's node>".
  std::string name;
  Bytes freed = 0;  // The bytes of its results that would otherwise be kept.
  /// The operations of its recomputations and of the recomputations that they require.
  double flops = 0;
  int times = 0;  // The number of times that it is recomputed.
};

/// One pass of StepFitter::Fit (planner/fit/fit.h).
struct PassReport {
  std::string name;      // For example "recompute".
  bool applied = false;  // Whether the pass was necessary and allowed.
  bool changed = false;  // Whether the pass changed the step.
  Bytes arena = 0;       // The arena after the pass.
  double seconds = 0;
};

/// The overhead of fitting a budget.
struct Price {
  int64_t micro_batches = 1;
  fit::HostUse host = {};
  /// The rows of a tile of logits, or 0 if tiles are unmodified.
  int64_t tile_rows = 0;
  /// The number of recomputations, without views and reloads.
  int recomputed_nodes = 0;
  double extra_flops = 0;    // The operations of recomputation.
  double extra_percent = 0;  // extra_flops in percent of the step's operations.
  /// The cost of recomputation, in the unit of FitOptions::cost.
  double extra_cost = 0;
  /// A lower bound on the extra_cost of all recomputations that fit the budget, if the nodes keep
  /// their order and the values in host memory do not change. The bound assumes that bodies need as
  /// little memory as possible, at no cost (planner/fit/recompute/bodies.h). 0 without a budget.
  double least_extra_cost = 0;
};

/// A point on the Pareto frontier of arena and cost. `arena` is the smallest budget that it fits.
/// `price` is its overhead relative to the step with the fewest micro-batches. Here,
/// Price::extra_cost includes the costs of micro-batches and copies, and Price::extra_flops
/// includes the operations of micro-batches.
struct ParetoPoint {
  Bytes arena = 0;
  Price price;
};

struct FittedStep {
  Graph graph;
  Plan plan;  // The plan of `graph`.
  Price price;
  /// The operations of the step with its micro-batches, without recomputation.
  double flops = 0;
  /// The cost of the step with its micro-batches and copies, without recomputation, in the unit of
  /// FitOptions::cost.
  double cost = 0;
  std::vector<RecomputedNode> recomputed = {};  // Most bytes freed first.
  /// A lower bound on the arena over all orders of the nodes outside bodies. Absent if no order was
  /// searched.
  std::optional<Bytes> order_bound = {};
  std::vector<PassReport> passes = {};  // In execution order.

  /// Returns the cost of the step with recomputation.
  double total_cost() const { return cost + price.extra_cost; }
};

}  // namespace stowage

namespace stowage::fit {

/// Measures how long each pass takes. No decision depends on the measured times.
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
