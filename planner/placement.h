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
// A plan (planner/plan.h) has one arena. A placement keeps the plan's buffers and lifetimes, and
// therefore its views and in-place results. It replaces the address of each buffer in the arena by
// a region of the device and an offset. The buffers of a body are placed individually, not within
// the workspace of the body's node. Buffers in host memory and outside the arena are not placed.
//
// Regions are ordered by speed, fastest first. The buffers of the fastest region are selected such
// that they fit and have as much traffic as possible (planner/packing/selection.h). The buffers of
// the second region are selected in the same way from the remaining buffers, and so on. In each
// region, buffers are packed by lifetime.
//
// Traffic is the number of bytes that kernels read and write when each program runs once. By
// default (TrafficOf), a kernel launch reads each operand once and writes each result once. Of a
// broadcast operand, only the distinct elements count. Of the table of a gather, only the rows that
// the gather reads count. Workspace is written once and read once. The traffic of a loop's body
// is multiplied by the number of iterations. Each body of a cond is assumed to run with equal
// probability. A device whose kernels read bytes repeatedly can provide its own TrafficFn.
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

/// Returns the traffic of a node for a device's kernels. The result must have one element per
/// operand and one per result of the node. `workspace` is the number of workspace bytes. The
/// function is not called for views and for nodes with bodies.
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
  /// The value of `region` for buffers that are not placed: buffers in host memory or outside the
  /// arena, and the workspace of a node with bodies.
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
  /// From the first byte of the region to the highest end of a buffer.
  Bytes bytes = 0;
  double traffic = 0;  // The traffic of the region's buffers, in bytes.
};

struct Placement {
  std::vector<MemoryRegion> regions = {};  // Fastest first.
  std::vector<RegionUse> use = {};         // One per region.
  std::vector<PlacedPlan> programs = {};
  double traffic = 0;  // The sum over all regions.
  /// No placement has more traffic in the fastest region. This upper bound is computed from a
  /// relaxation (planner/packing/selection.h).
  double fastest_bound = 0;

  /// Returns the sum of RegionUse::bytes over all regions.
  Bytes bytes() const;
};

struct ProgramPlan {
  const Graph& graph;
  const Plan& plan;
};

/// Places the buffers of `programs`, whose plans must be valid (ValidatePlan). The first program
/// must be the training step. All params and states of the other programs must also be params and
/// states of the step, with the same sizes. Takes as long as some hundred packings for each region
/// except the last, and up to five times as long if buffers do not fit. Deterministic.
///
/// Returns kInvalidArgument in these cases:
///
///   - `programs` or `regions` is empty.
///   - A region has no name, the name of another region, or no bytes.
///   - A plan belongs to another graph, or the plans have different alignments.
///   - A program has a param or state that the step does not have, or has with another size.
///
/// Returns kBudgetTooSmall, naming the bytes of each region, if a buffer is larger than every
/// region, if more bytes are live at one time than all regions have, or if no placement was found.
/// Propagates errors of packing::CheckProblem.
Result<Placement> PlaceInRegions(std::span<const ProgramPlan> programs,
                                 const std::vector<MemoryRegion>& regions,
                                 const TrafficFn& traffic = TrafficOf);

/// Returns the violations of `placement` as a placement of `programs`, in at most `limit`
/// sentences. Shares no code with PlaceInRegions. Visits the nodes of each program and its bodies
/// in order and reports
///
///   - a placement that does not have the numbers of programs, buffers and bodies of the plans;
///   - a buffer that overlaps a live buffer, is outside its region, is misaligned or has no region;
///   - a buffer that has a region but must not be placed (PlacedBuffer::kNowhere);
///   - a param or state that is not where the first program has it;
///   - a lifetime that does not fit the schedule of its program.
///
/// Relies on the lifetimes that the plans state, which ValidatePlan checks. Takes time in
/// proportion to the number of buffers times the number of buffers that are live at one time.
std::vector<std::string> ValidatePlacement(
    std::span<const ProgramPlan> programs, const Placement& placement,
    size_t limit = 16);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLACEMENT_H_
