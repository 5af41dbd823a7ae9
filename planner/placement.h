#ifndef STOWAGE_PLANNER_PLACEMENT_H_
#define STOWAGE_PLANNER_PLACEMENT_H_

// Places the buffers of planned programs in several memories that kernels address directly, such
// as the fast SRAM and the slow external RAM of a microcontroller.
//
//   const std::vector<ProgramPlan> programs = {{step, plan}};
//   Result<Placement> placement =
//       PlaceInRegions(programs, {{"sram", 256 << 10}, {"psram", 8 << 20}});
//   placement->programs[0].buffers[3];  // {.region = 0, .offset = 4096}
//   placement->use[0].traffic / placement->traffic;
//
// A plan has one arena. A placement keeps the plan's buffers and lifetimes, and with them views
// and results in place, and gives each buffer a region and an offset there instead of its address
// in the arena. Buffers of bodies are placed on their own, not as part of their node's workspace.
// Values on the host and outside the arena stay where the plan has them.
//
// Regions are in the order of speed, the fastest first. The fastest one gets the buffers with
// the most traffic that fit, of the others the next one gets most, and so on
// (planner/packing/selection.h). In each region, buffers are packed by lifetime.
//
// Traffic is the number of bytes that kernels read and write in one run of each program. By
// default (TrafficOf), a launch reads each operand and writes each result once; a broadcast
// operand counts its distinct elements, and a gather reads the rows it takes. Workspace is
// written and read once. A loop counts each iteration, a cond every body as often as the others.
// A device can count what its kernels read repeatedly (TrafficFn).
//
// Programs share params and states, which are live throughout. Everything else of a program is
// live while it runs, and shares bytes with what is live in other programs.

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

/// Bytes that one launch of a node reads of each operand and writes of each result, and reads and
/// writes of its workspace.
struct NodeTraffic {
  std::vector<double> operands = {}, results = {};
  double workspace = 0;
};

/// Each operand read and each result written once, and `workspace` bytes written and read once.
NodeTraffic TrafficOf(const Graph& graph, const Layouts& layouts,
                      const Node& node, Bytes workspace);

/// The same of a device's kernels. Not called for views and nodes with bodies.
using TrafficFn =
    std::function<NodeTraffic(const Graph& graph, const Layouts& layouts,
                              const Node& node, Bytes workspace)>;

/// A memory of the device.
struct MemoryRegion {
  std::string name = {};
  Bytes bytes = 0;  // available
};

/// The place of a buffer of a plan.
struct PlacedBuffer {
  /// None of a buffer on the host or outside, or of the workspace of a node with bodies.
  static constexpr int32_t kNowhere = -1;
  int32_t region = kNowhere;  // an index of Placement::regions
  Bytes offset = 0;           // from the region's first byte
  friend bool operator==(const PlacedBuffer&, const PlacedBuffer&) = default;
};

/// The places of the buffers of a plan, and of those of its bodies.
struct PlacedPlan {
  std::vector<PlacedBuffer> buffers = {};  // by index in Plan::buffers
  std::vector<PlacedPlan> bodies = {};     // by index in Plan::bodies
};

struct RegionUse {
  Bytes bytes = 0;     // from the first byte to the end of the last buffer
  double traffic = 0;  // of the buffers in it, in bytes
};

struct Placement {
  std::vector<MemoryRegion> regions = {};  // the fastest first
  std::vector<RegionUse> use = {};         // one per region
  std::vector<PlacedPlan> programs = {};
  double traffic = 0;  // of all regions
  /// No placement has more traffic in the fastest region: the bound of a linear relaxation.
  double fastest_bound = 0;

  /// The sum of RegionUse::bytes.
  Bytes bytes() const;
};

/// A program and its plan.
struct ProgramPlan {
  const Graph& graph;
  const Plan& plan;
};

/// Places the buffers of `programs`, the training step first; the others have no params and
/// states but those of the step. Deterministic. Errors: kInvalidArgument for no program or
/// region, a region without a name or with that of another, of no bytes, plans of different
/// alignments, a param or state that the step does not have; kBudgetTooSmall, with the bytes of
/// each region, if a buffer is larger than every region, if more bytes are live than all regions
/// have, or if no placement was found. Some hundred packings for each region but the last.
Result<Placement> PlaceInRegions(std::span<const ProgramPlan> programs,
                                 const std::vector<MemoryRegion>& regions,
                                 const TrafficFn& traffic = TrafficOf);

/// The violations of `placement` as one of `programs`, at most `limit` sentences. It shares no
/// code with PlaceInRegions: it walks the nodes of each program and its bodies in order, and
/// reports a buffer that is placed over another one that is live, outside its region, misaligned
/// or nowhere, and a param or state that is not where the step has it. Lifetimes are those
/// stated in the plans, which ValidatePlan compares with the uses. O(n * live buffers).
std::vector<std::string> ValidatePlacement(
    std::span<const ProgramPlan> programs, const Placement& placement,
    size_t limit = 16);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLACEMENT_H_
