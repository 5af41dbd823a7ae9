#ifndef STOWAGE_PLANNER_PLAN_MEMORY_H_
#define STOWAGE_PLANNER_PLAN_MEMORY_H_

// The entry point of the planner. PlanMemory assigns an address to every byte of a graph,
// or returns an error that explains why the budget is too small.
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

// PlaceInHoles places values of a cond's body in bytes outside the body's arena that are
// temporarily unused: within an operand after its death in the body, and within a result
// until it is first written.
//
//   address ^
//           |  xxxx aaaaaaa        x, an operand of 2 slots, dies at time 4;
//           |  xxxx  bbb ccc       a, b and c are computed later
//           +---------------> time
//
//   PlaceInHoles(&plan);  // of a body, before its other buffers are packed

/// Returns whether `buffer` is the slot of an operand that dies in the body that `plan` is
/// for.
bool IsDyingOperand(const Plan& plan, const PlannedBuffer& buffer);

/// Moves buffers of `plan` from the activations region into these unused ranges, largest
/// buffer first. Each buffer goes into the smallest outside slot that has space for it
/// throughout its lifetime. Buffers that fit no slot are packed later. Workspace is not
/// moved, because the workspace of a node with bodies must keep its address whenever the
/// bodies run.
void PlaceInHoles(Plan* plan);

// MoveOutside marks the buffers of a body that are outside its arena. These are the buffers
// of its leaves and outputs, which are in the operands and results of its node.
//
//   Lifetimes lifetimes = ComputeLifetimes(body, {});
//   std::vector<int32_t> second_of = MoveOutside(body, node, true, &lifetimes);

/// Moves the buffers of the leaves and outputs of `body`, a body of `node`, into the region
/// kOutside, where they are live throughout. There are two exceptions. Leaves that die in a
/// cond's body (LifetimeOptions::dying) keep their death, and outputs of a cond's body are
/// live only from the time at which they are written.
///
/// The leaf and output of a carry or sum share one buffer in two cases: if the leaf is dead
/// before the buffer of the output is written, or, with `in_place`, if the first node that
/// writes there may overwrite the leaf. All other carries and sums get a second buffer in
/// the region kIo, except carries of a loop with one iteration. Returns the index of the
/// second buffer, or -1, for each carry and then for each sum. Linear in values and
/// operands.
std::vector<int32_t> MoveOutside(const Graph& body, const Node& node,
                                 bool in_place, Lifetimes* lifetimes);

using packing::Deadline;
using packing::Packer;

inline constexpr Bytes kDefaultAlignment = 256;

struct PlanOptions {
  std::optional<Bytes> budget = std::nullopt;  // The maximum arena size.
  /// The alignment of slots. A power of two.
  Bytes alignment = kDefaultAlignment;
  std::optional<WeightLayout> weights =
      std::nullopt;  // From another plan. If absent, this plan decides.
  Packer packer = Packer::kGreedy;
  Deadline deadline = {};  // For Packer::kBest (planner/packing/packer.h).
  bool in_place = true;
  DeviceNeeds device = {};  // Backend::Needs() of the target backend.
  /// Params, by name, that are not stored in the arena, such as constants of a program
  /// (compile/compile.h). They are in Region::kOutside. Names of other graphs are ignored.
  std::set<std::string> outside = {};
};

/// Plans `graph` and its bodies (planner/plan.h). Reserves the regions first, then packs
/// activations and workspace. Deterministic: the same graph and options give the same plan,
/// byte for byte, unless the deadline passes.
///
/// Returns kBudgetTooSmall if the arena exceeds the budget. The message contains the
/// budget, the required size, the node at the peak, the largest live buffers, and the
/// smallest budget that works. Returns kInvalidArgument in these cases:
///
///   - The weight layout lacks a param or state, or holds it with another type.
///   - The alignment is not a power of two, or does not divide the alignment of the weight layout.
///   - The budget is not positive.
///   - The sum of all buffers does not fit 64 bits.
///   - The graph updates a param of `outside`, or has it in host memory.
Result<Plan> PlanMemory(const Graph& graph, const PlanOptions& options = {});

/// Returns a function that computes the workspace of each node like PlanMemory. The
/// workspace of a node is the workspace of `options.device`. The workspace of a node with
/// bodies is the largest arena of a body, which is planned in each call. If the operand of
/// a cond could die in it, the function assumes that it does, so a plan may need more
/// workspace.
WorkspaceFn NodeWorkspace(const PlanOptions& options);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLAN_MEMORY_H_
