#ifndef STOWAGE_PLANNER_FIT_LEVERS_H_
#define STOWAGE_PLANNER_FIT_LEVERS_H_

// What may be done to a training step so that it fits a budget. Every lever
// leaves the results as they are; pieces alone change how sums are rounded.
//
//   Levers levers;                          // recomputation and offloading
//   levers.pieces = PiecesToTry(batch);     // and the batch in pieces
//   levers.recompute = Recompute::kCheap;   // but nothing dear runs again
//
// A larger set of levers never refuses a budget that a smaller one takes, nor
// costs more.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

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

/// What may be kept in the host's memory: nothing, or states and forward values.
enum class OffloadChoice : uint8_t { kNone, kAuto };
/// "none", "auto".
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

struct Levers {
  /// The numbers of pieces that the batch may be taken in: rising, at least one.
  std::vector<int64_t> pieces = {1};
  Recompute recompute = Recompute::kAuto;
  /// Names of values, or of views of them, that never run again, and of those
  /// that always do. Not looked at where nothing may run again.
  std::vector<std::string> always_kept = {};
  std::vector<std::string> always_remade = {};
  OffloadChoice offload = OffloadChoice::kAuto;
  NodeOrder order = NodeOrder::kGiven;
};

/// A lever that is a choice by name, as command lines and caches have it.
struct LeverInfo {
  std::string_view name;  // "recompute"
  std::string_view help;
  /// Error kInvalidArgument for anything but its choices.
  Status (*set)(Levers& levers, std::string_view choice);
  std::string_view (*get)(const Levers& levers);
};
/// All of these. Pieces and names of values are no choices by name.
std::span<const LeverInfo> LeverTable();

/// All that `levers` says: equal texts for equal levers alone.
std::string ToText(const Levers& levers);

/// No lever at all.
inline Levers NoLevers() {
  return {.recompute = Recompute::kNone, .offload = OffloadChoice::kNone};
}

/// Every lever but the order, whose search is worth its time only where a byte is
/// dear: what a batch may be made to fit by.
Levers AllLevers(int64_t batch);

/// The most pieces that a batch is taken in. The nodes of a step, and the time and
/// memory of planning, grow with them.
inline constexpr int64_t kMostPieces = 1024;

/// The numbers of pieces that are worth trying: 1, 2, 4, ... and the batch itself,
/// or as many as there may be.
std::vector<int64_t> PiecesToTry(int64_t batch);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_FIT_LEVERS_H_
