#ifndef STOWAGE_PLANNER_PLACEMENT_H_
#define STOWAGE_PLANNER_PLACEMENT_H_

// Places the buffers of planned programs in several memories that kernels address directly,
// such as the fast SRAM and the slow external RAM of a microcontroller.
//
//   const std::vector<ProgramPlan> programs = {{step, plan}};
//   Result<Placement> placement =
//       PlaceInRegions(programs, {{"sram", 256 << 10}, {"psram", 8 << 20}});
//   placement->programs[0].buffers[3];  // {.region = 0, .offset = 4096}
//   placement->use[0].traffic / placement->traffic;
//
// A plan has one arena. A placement keeps the plan's buffers and lifetimes, and therefore
// its views and in-place results. It replaces the address of each buffer in the arena by a
// region and an offset. The buffers of bodies are placed individually, not as part of their
// node's workspace. Values in host memory and outside the arena are not affected.
//
// Regions are ordered by speed, fastest first. The fastest region gets the buffers with the
// most traffic that fit. The second region gets the remaining buffers with the most
// traffic, and so on (planner/packing/selection.h). In each region, buffers are packed by
// lifetime.
//
// Traffic is the number of bytes that kernels read and write when each program runs once.
// By default (TrafficOf), a kernel launch reads each operand once and writes each result
// once. A broadcast operand counts its distinct elements, and a gather counts the rows that
// it reads. Workspace is written and read once. A loop counts every iteration. A cond
// counts each of its bodies with equal probability. A device can count the bytes that its
// kernels read repeatedly (TrafficFn).
//
// Programs share params and states, which are always live. All other buffers of a program
// are live only while it runs, and may share bytes with buffers of other programs.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "planner/plan.h"

namespace stowage {

/// The bytes that one launch of a node reads per operand, writes per result, and reads and
/// writes in its workspace.
struct NodeTraffic {
  std::vector<double> operands = {}, results = {};
  double workspace = 0;
};

/// Returns the traffic of a node that reads each operand once, writes each result once, and
/// writes and reads `workspace` bytes once.
NodeTraffic TrafficOf(const Graph& graph, const Layouts& layouts,
                      const Node& node, Bytes workspace);

/// Returns the traffic of a node for a device's kernels. It is not called for views and
/// nodes with bodies.
using TrafficFn =
    std::function<NodeTraffic(const Graph& graph, const Layouts& layouts,
                              const Node& node, Bytes workspace)>;

/// A memory of the device.
struct MemoryRegion {
  std::string name = {};
  Bytes bytes = 0;  // Available.
};

/// The location of a plan's buffer.
struct PlacedBuffer {
  /// The region of a buffer in host memory or outside the arena, and of the workspace of a
  /// node with bodies.
  static constexpr int32_t kNowhere = -1;
  int32_t region = kNowhere;  // An index of Placement::regions.
  Bytes offset = 0;           // From the region's first byte.
  friend bool operator==(const PlacedBuffer&, const PlacedBuffer&) = default;
};

/// The locations of the buffers of a plan and of its bodies.
struct PlacedPlan {
  std::vector<PlacedBuffer> buffers = {};  // In the order of Plan::buffers.
  std::vector<PlacedPlan> bodies = {};     // In the order of Plan::bodies.
};

struct RegionUse {
  Bytes bytes = 0;     // From the first byte to the end of the last buffer.
  double traffic = 0;  // The traffic of its buffers, in bytes.
};

struct Placement {
  std::vector<MemoryRegion> regions = {};  // Fastest first.
  std::vector<RegionUse> use = {};         // One per region.
  std::vector<PlacedPlan> programs = {};
  double traffic = 0;  // The sum over all regions.
  /// An upper bound of the traffic in the fastest region for any placement, from a linear
  /// relaxation.
  double fastest_bound = 0;

  /// Returns the sum of RegionUse::bytes.
  Bytes bytes() const;
};

struct ProgramPlan {
  const Graph& graph;
  const Plan& plan;
};

/// Places the buffers of `programs`. The first program must be the training step. All
/// params and states of the other programs must be params and states of the step. The time
/// is the time of some hundred packings for each region except the last. Deterministic.
///
/// Returns kInvalidArgument in these cases:
///
///   - `programs` or `regions` is empty.
///   - A region has no name, the name of another region, or no bytes.
///   - A plan belongs to another graph, or the plans have different alignments.
///   - A program has a param or state that the step does not have.
///
/// Returns kBudgetTooSmall, with the bytes of each region, if a buffer is larger than every
/// region, if more bytes are live than all regions have, or if no placement was found.
Result<Placement> PlaceInRegions(std::span<const ProgramPlan> programs,
                                 const std::vector<MemoryRegion>& regions,
                                 const TrafficFn& traffic = TrafficOf);

/// Returns the violations of `placement` as a placement of `programs`, in at most `limit`
/// sentences. Shares no code with PlaceInRegions. Visits the nodes of each program and its
/// bodies in order and reports
///
///   - a buffer that overlaps a live buffer, is outside its region, is misaligned or has no region;
///   - a param or state that is not at the location where the step has it.
///
/// Lifetimes are the lifetimes stated in the plans, which ValidatePlan compares with the
/// uses. O(n * live buffers).
std::vector<std::string> ValidatePlacement(
    std::span<const ProgramPlan> programs, const Placement& placement,
    size_t limit = 16);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLACEMENT_H_
