#ifndef STOWAGE_PLANNER_FIT_MEMORY_OPTIMIZATIONS_H_
#define STOWAGE_PLANNER_FIT_MEMORY_OPTIMIZATIONS_H_

// The memory optimizations that may make a training step fit a budget. Results do not change,
// except that micro-batches round sums differently.
//
//   MemoryOptimizations optimizations;                       // recompute, offload and tiles
//   optimizations.micro_batches = MicroBatchesToTry(batch);  // and micro-batches
//   optimizations.recompute = Recompute::kCheap;             // only cheap recomputation
//
// A larger set of optimizations never refuses a budget that a smaller one meets, nor costs more.

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

/// Recomputation of nothing; of at most kCheapShare of the cost, which covers elementwise ops
/// and norms; of anything.
enum class Recompute : uint8_t { kNone, kCheap, kAuto };
/// "none", "cheap", "auto".
std::string_view RecomputeName(Recompute recompute);
/// Error kInvalidArgument for anything but these.
Result<Recompute> ParseRecompute(std::string_view name);

/// The most that kCheap may add to what a step costs.
inline constexpr double kCheapShare = 0.01;

/// Offload of nothing; of states, forward values and frozen params to host memory; or of these
/// and trained params to a file on disk.
enum class OffloadChoice : uint8_t { kNone, kAuto, kDisk };
/// "none", "auto", "disk".
std::string_view OffloadName(OffloadChoice choice);
/// Error kInvalidArgument for anything but these.
Result<OffloadChoice> ParseOffload(std::string_view name);

/// Nodes run in the given order, or in the order found that fits at the least cost, and among
/// those with the least memory.
enum class NodeOrder : uint8_t { kGiven, kMemory };
/// "given", "memory".
std::string_view NodeOrderName(NodeOrder order);
/// Error kInvalidArgument for anything but these.
Result<NodeOrder> ParseNodeOrder(std::string_view name);

/// Logits are computed in the step's tiles of rows, or in smaller ones (planner/fit/tiles).
enum class Tiles : uint8_t { kNone, kAuto };
/// "none", "auto".
std::string_view TilesName(Tiles tiles);
/// Error kInvalidArgument for anything but these.
Result<Tiles> ParseTiles(std::string_view name);

struct MemoryOptimizations {
  /// The numbers of micro-batches to try: ascending, at least one.
  std::vector<int64_t> micro_batches = {1};
  Recompute recompute = Recompute::kAuto;
  /// Names of values, or of their views, that are always kept and always recomputed. Ignored
  /// without recomputation.
  std::vector<std::string> always_kept = {};
  std::vector<std::string> always_recomputed = {};
  OffloadChoice offload = OffloadChoice::kAuto;
  NodeOrder order = NodeOrder::kGiven;
  Tiles tiles = Tiles::kAuto;
};

/// An optimization that is chosen by name, for command lines and caches.
struct OptimizationInfo {
  std::string_view name;  // "recompute"
  std::string_view help;
  /// Error kInvalidArgument for anything but its choices.
  Status (*set)(MemoryOptimizations& optimizations, std::string_view choice);
  std::string_view (*get)(const MemoryOptimizations& optimizations);
};
/// All of these. Micro-batches and names of values are not among them.
std::span<const OptimizationInfo> OptimizationTable();

/// `optimizations` as a text, injectively.
std::string ToText(const MemoryOptimizations& optimizations);

/// No optimization at all.
inline MemoryOptimizations NoOptimizations() {
  return {.recompute = Recompute::kNone,
          .offload = OffloadChoice::kNone,
          .tiles = Tiles::kNone};
}

/// Every optimization for a batch of this size except the order, whose search takes long.
MemoryOptimizations AllOptimizations(int64_t batch);

/// The most micro-batches of a step. Its nodes, and the time and memory of planning, grow with
/// them.
inline constexpr int64_t kMaxMicroBatches = 1024;

/// The numbers of micro-batches that are worth trying: 1, 2, 4, ... and the batch itself, up to
/// kMaxMicroBatches.
std::vector<int64_t> MicroBatchesToTry(int64_t batch);

// The result of optimizations: the step to run, its plan, and the overhead over the unmodified
// step.

/// A recomputed node.
struct RecomputedNode {
  /// Of its first dropped result; in a body, "<value>@<first result of its node>".
  std::string name;
  Bytes freed = 0;   // bytes of its results that would be kept otherwise
  double flops = 0;  // of its recomputations, and of those that they require
  int times = 0;     // how often it is recomputed
};

/// One pass of the pipeline (planner/fit/fit.h).
struct PassReport {
  std::string name;      // "recompute"
  bool applied = false;  // it was needed and allowed
  bool changed = false;  // it changed the step
  Bytes arena = 0;       // after it
  double seconds = 0;
};

/// The overhead of a budget.
struct Price {
  int64_t micro_batches = 1;
  fit::HostUse host = {};
  int64_t tile_rows = 0;     // of logits at a time; 0: unmodified
  int recomputed_nodes = 0;  // views not counted
  double extra_flops = 0;    // of recomputation
  double extra_percent = 0;  // the same, in percent of the step's operations
  double extra_cost = 0;     // of recomputation, by FitOptions::cost
  /// A lower bound on extra_cost: no recomputation that fits the budget costs less, if the nodes
  /// keep their order and the same values are on the host. It assumes that bodies need as little
  /// as they can, at no cost (planner/fit/recompute/bodies.h). 0 without a budget.
  double least_extra_cost = 0;
};

/// A Pareto point: the smallest budget that it fits, and its overhead over the step of fewest
/// micro-batches. extra_cost includes micro-batches and copies, extra_flops micro-batches.
struct ParetoPoint {
  Bytes arena = 0;
  Price price;
};

struct FittedStep {
  Graph graph;
  Plan plan;  // for `graph`
  Price price;
  double flops =
      0;            // of the step with its micro-batches, without recomputation
  double cost = 0;  // likewise, by FitOptions::cost, copies included
  std::vector<RecomputedNode> recomputed = {};  // most bytes freed first
  /// A lower bound on the arena over all orders of the nodes outside bodies; absent if none was
  /// searched.
  std::optional<Bytes> order_bound = {};
  std::vector<PassReport> passes = {};  // in the order in which they ran

  double total_cost() const { return cost + price.extra_cost; }
};

}  // namespace stowage

namespace stowage::fit {

/// Measures how long each pass takes. No decision depends on it.
class PassClock {
 public:
  /// Seconds since the last call, or since construction.
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
