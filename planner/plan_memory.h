#ifndef STOWAGE_PLANNER_PLAN_MEMORY_H_
#define STOWAGE_PLANNER_PLAN_MEMORY_H_

// The planner's entry point: maps a graph to an address for every byte, or to the reason
// why the budget cannot hold it.
//
//   Result<Plan> plan = PlanMemory(step, {.budget = 64 << 20});
//   if (!plan.ok()) Print(plan.error().message);  // names the peak

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/lifetimes.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/plan.h"

namespace stowage {

// Places values of a cond's body in outside bytes that are unused for a while: in those
// of an operand, after its death in the body, and in those of a result until it is first
// written.
//
//   address ^
//           |  xxxx aaaaaaa        x, an operand of 2 slots, dies at time 4;
//           |  xxxx  bbb ccc       a, b and c are made later
//           +---------------> time
//
//   PlaceInHoles(&plan);  // of a body, before the rest of it is packed

/// Returns whether `buffer` is the slot of an operand that dies in the body with this
/// plan.
bool IsDyingOperand(const Plan& plan, const PlannedBuffer& buffer);

/// Moves buffers of `plan` from the region of activations into these free ranges, the
/// largest first, each into the smallest range that has space for it throughout its life.
/// Buffers without a range are left to be packed. Scratch stays: that of a node with
/// bodies must keep its address whenever these run.
void PlaceInHoles(Plan* plan);

// The buffers of a body that are outside of its arena: those of its leaves and of its
// outputs, which are in the operands and results of its node.
//
//   Lifetimes lifetimes = ComputeLifetimes(body, {});
//   std::vector<int32_t> second_of = MoveOutside(body, node, true, &lifetimes);

/// Moves the buffers of the leaves and outputs of `body`, which is one of `node`'s, into
/// the region kOutside, where they are live throughout. Exceptions: leaves that die in a
/// cond's body (LifetimeOptions::dying), and its outputs until they are written. A carry
/// shares one buffer, leaf and output, if its leaf is dead before anything is written
/// there, or, with `in_place`, if the first node that writes there may overwrite the
/// leaf. All other carries get a second buffer in the region kIo. Returns the index of
/// the second buffer, or -1, for each carry and then for each summed value. Linear in
/// values and operands.
std::vector<int32_t> MoveOutside(const Graph& body, const Node& node,
                                 bool in_place, Lifetimes* lifetimes);

using packing::Deadline;
using packing::Packer;

inline constexpr Bytes kDefaultAlignment = 256;

struct PlanOptions {
  std::optional<Bytes> budget = std::nullopt;  // maximum bytes of the arena
  Bytes alignment = kDefaultAlignment;         // of every slot; a power of two
  std::optional<WeightLayout> weights =
      std::nullopt;  // given by another plan; absent: decided here
  Packer packer = Packer::kGreedy;
  Deadline deadline = {};  // of the best packer; see planner/packing/packer.h
  bool in_place = true;
  DeviceNeeds device = {};  // of the backend that will run it: Backend::Needs()
  /// Params, by name, whose bytes are not in the arena, such as constants of a program
  /// (compile/compile.h): they are in Region::kOutside. Names of other graphs are ignored.
  std::set<std::string> outside = {};
};

/// Plans `graph`, and the bodies in it (planner/plan.h). Reserves the regions first, then
/// packs activations and scratch around them. Errors: kBudgetTooSmall, naming the budget,
/// the need, the peak's node, the largest live buffers and the smallest budget that
/// works; kInvalidArgument for a param or state that the weight layout lacks or holds
/// with another type, an alignment that is not a power of two, sums beyond 64 bits, a
/// param of `outside` that the graph updates or has on the host.
/// Deterministic: the same graph and options give the same plan, byte for byte, unless
/// the deadline passes.
Result<Plan> PlanMemory(const Graph& graph, const PlanOptions& options = {});

/// The workspace of each node as PlanMemory plans it: that of `options.device`, and for a
/// node with bodies their largest arena, planned again at each call. All operands of a
/// cond that may die in it do so here; a plan may therefore need more.
WorkspaceFn NodeWorkspace(const PlanOptions& options);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLAN_MEMORY_H_
