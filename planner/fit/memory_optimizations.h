#ifndef STOWAGE_PLANNER_FIT_MEMORY_OPTIMIZATIONS_H_
#define STOWAGE_PLANNER_FIT_MEMORY_OPTIMIZATIONS_H_

// What may be done to a training step so that it fits a budget. Every optimization
// leaves the results as they are; micro-batches alone change how sums are rounded.
//
//   MemoryOptimizations optimizations;                          // recomputation and offloading
//   optimizations.micro_batches = MicroBatchesToTry(batch);     // and the batch in micro-batches
//   optimizations.recompute = Recompute::kCheap;   // but nothing expensive runs again
//
// A larger set of optimizations never refuses a budget that a smaller one takes, nor
// costs more.

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

/// What may run again: nothing; what costs nearly nothing, which is elementwise
/// ops and norms; anything.
enum class Recompute : uint8_t { kNone, kCheap, kAuto };
/// "none", "cheap", "auto".
std::string_view RecomputeName(Recompute recompute);
/// Error kInvalidArgument for anything but these.
Result<Recompute> ParseRecompute(std::string_view name);

/// The most that kCheap may add to what a step costs.
inline constexpr double kCheapShare = 0.01;

/// What may be kept in the host's memory: nothing; states, forward values and frozen
/// params; or these and trained params, where that memory is a file on disk.
enum class OffloadChoice : uint8_t { kNone, kAuto, kDisk };
/// "none", "auto", "disk".
std::string_view OffloadName(OffloadChoice choice);
/// Error kInvalidArgument for anything but these.
Result<OffloadChoice> ParseOffload(std::string_view name);

/// The nodes run as they are given, or in whichever order is found to fit at the
/// least cost, and in the least memory among those.
enum class NodeOrder : uint8_t { kGiven, kMemory };
/// "given", "memory".
std::string_view NodeOrderName(NodeOrder order);
/// Error kInvalidArgument for anything but these.
Result<NodeOrder> ParseNodeOrder(std::string_view name);

/// Logits are made by tiles of rows as the step has them, or by smaller ones
/// (planner/fit/tiles).
enum class Tiles : uint8_t { kNone, kAuto };
/// "none", "auto".
std::string_view TilesName(Tiles tiles);
/// Error kInvalidArgument for anything but these.
Result<Tiles> ParseTiles(std::string_view name);

struct MemoryOptimizations {
  /// The numbers of micro-batches that the batch may be taken in: rising, at least one.
  std::vector<int64_t> micro_batches = {1};
  Recompute recompute = Recompute::kAuto;
  /// Names of values, or of views of them, that never run again, and of those
  /// that always do. Not looked at where nothing may run again.
  std::vector<std::string> always_kept = {};
  std::vector<std::string> always_recomputed = {};
  OffloadChoice offload = OffloadChoice::kAuto;
  NodeOrder order = NodeOrder::kGiven;
  Tiles tiles = Tiles::kAuto;
};

/// An optimization that is a choice by name, as command lines and caches have it.
struct OptimizationInfo {
  std::string_view name;  // "recompute"
  std::string_view help;
  /// Error kInvalidArgument for anything but its choices.
  Status (*set)(MemoryOptimizations& optimizations, std::string_view choice);
  std::string_view (*get)(const MemoryOptimizations& optimizations);
};
/// All of these. Micro-batches and names of values are no choices by name.
std::span<const OptimizationInfo> OptimizationTable();

/// All that `optimizations` says: equal texts for equal optimizations alone.
std::string ToText(const MemoryOptimizations& optimizations);

/// No optimization at all.
inline MemoryOptimizations NoOptimizations() {
  return {.recompute = Recompute::kNone,
          .offload = OffloadChoice::kNone,
          .tiles = Tiles::kNone};
}

/// Every optimization but the order, whose search is worth its time only where a byte is
/// expensive: what a batch may be made to fit by.
MemoryOptimizations AllOptimizations(int64_t batch);

/// The most micro-batches that a batch is taken in. The nodes of a step, and the time and
/// memory of planning, grow with them.
inline constexpr int64_t kMaxMicroBatches = 1024;

/// The numbers of micro-batches that are worth trying: 1, 2, 4, ... and the batch itself,
/// or as many as there may be.
std::vector<int64_t> MicroBatchesToTry(int64_t batch);

// A training step as optimizations made it fit: what to run, where every byte of it
// lies, and what that costs beyond the step as it was given.

/// A node that runs again, and why.
struct RecomputedNode {
  /// Of its first dropped result; in a body, "<value>@<first result of its node>".
  std::string name;
  Bytes freed = 0;  // bytes of its results that would be kept otherwise
  double flops =
      0;          // of its further runs, and of what runs again for them only
  int times = 0;  // how often it runs again
};

/// One pass of the pipeline (planner/fit/fit.h).
struct PassReport {
  std::string name;      // "recompute"
  bool applied = false;  // there was something for it to do
  bool changed = false;  // and it did
  Bytes arena = 0;       // after it
  double seconds = 0;
};

/// What a budget costs.
struct Price {
  int64_t micro_batches = 1;  // that the batch is taken in
  fit::HostUse host = {};     // what is kept on the host
  int64_t tile_rows = 0;      // of logits at a time; 0: as the step has them
  int recomputed_nodes = 0;   // views not counted
  double extra_flops = 0;     // of what runs again
  double extra_percent = 0;   // these, of the step's operations without
  double extra_cost = 0;      // of what runs again, by FitOptions::cost
  /// No recomputation that fits the budget costs less, whatever is dropped and
  /// when, if the nodes of the step keep their order and the same is on the
  /// host. Bodies are taken to be as low as they get for nothing
  /// (planner/fit/recompute/bodies.h). 0 without a budget.
  double least_extra_cost = 0;
};

/// One Pareto point: the smallest budget it fits, and what is extra beyond the step
/// of fewest micro-batches: micro-batches and copies included in extra_cost, micro-batches in
/// extra_flops.
struct ParetoPoint {
  Bytes arena = 0;
  Price price;
};

struct FittedStep {
  Graph graph;
  Plan plan;  // for `graph`
  Price price;
  double flops =
      0;  // of the step in so many micro-batches, before recomputation
  double cost = 0;  // likewise, by FitOptions::cost, copies included
  std::vector<RecomputedNode> recomputed = {};  // most bytes freed first
  /// No order of the nodes that are in no body takes a smaller arena; absent when
  /// none was looked for.
  std::optional<Bytes> order_bound = {};
  std::vector<PassReport> passes = {};  // in the order in which they ran

  double total_cost() const { return cost + price.extra_cost; }
};

}  // namespace stowage

namespace stowage::fit {

// How long each pass of the pipeline took. Nothing is decided by this clock.

class PassClock {
 public:
  /// Seconds since the last call, or since this was made.
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
