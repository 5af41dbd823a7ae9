#ifndef STOWAGE_PLANNER_PLAN_MEMORY_H_
#define STOWAGE_PLANNER_PLAN_MEMORY_H_

// The entry point of the planner. PlanMemory assigns an address to every byte of a graph, or
// returns an error that explains why the budget is too small. The other functions are steps of
// PlanMemory for the bodies of loops and conds.
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

// PlaceInHoles places values of a cond's body within operands and results of the cond, outside the
// body's arena (planner/plan.h). The bytes of an operand are unused after the operand has died in
// the body, and the bytes of a result are unused until the result is first written.
//
//   address ^
//           |  xxxx aaaaaaa        x, an operand of 2 slots, dies at time 4;
//           |  xxxx  bbb ccc       a, b and c are computed later
//           +---------------> time
//
//   PlaceInHoles(&plan);  // The plan of a body, whose other buffers are not packed yet.

/// Returns whether `buffer`, a buffer of `plan`, is the slot of an operand that dies in the body.
/// `plan` must be the plan of a body.
bool IsDyingOperand(const Plan& plan, const PlannedBuffer& buffer);

/// Moves buffers of `plan`, the plan of a body, from the activations region into the unused bytes
/// of outside slots. Visits the largest buffers first. Each buffer is placed within the smallest
/// outside slot that has space for it throughout its lifetime. Buffers that fit no slot stay in the
/// activations region. Workspace is not moved, because the workspace of a node with bodies must
/// have an address in the arena.
void PlaceInHoles(Plan* plan);

// MoveOutside marks the buffers of a body that are outside the body's arena. These are the buffers
// of its leaves and outputs, which are in the operands and results of the node.
//
//   Lifetimes lifetimes = ComputeLifetimes(body, {});
//   std::vector<int32_t> second_of = MoveOutside(body, node, true, &lifetimes);

/// Moves the buffers of the leaves and outputs of `body` into the region kOutside. `body` must be a
/// body of `node`, and `lifetimes` its lifetimes. In kOutside, buffers are live throughout, with
/// two exceptions: leaves that die in a cond's body (LifetimeOptions::dying) still die there, and
/// outputs of a cond's body are live only from the time at which they are written.
///
/// The leaf and the output of a loop's carry or sum share one buffer in two cases: if the leaf is
/// dead before the buffer of the output is written, or, with `in_place`, if the first node that
/// writes to this buffer may overwrite the leaf. All other carries and sums get a second buffer in
/// the region kIo, except carries of a loop with one iteration. Returns the second buffers as
/// described at BodyPlan::second_of. Takes time in proportion to the number of values and
/// operands, times the number of carries and sums.
std::vector<int32_t> MoveOutside(const Graph& body, const Node& node,
                                 bool in_place, Lifetimes* lifetimes);

using packing::Deadline;
using packing::Packer;

inline constexpr Bytes kDefaultAlignment = 256;

struct PlanOptions {
  std::optional<Bytes> budget = std::nullopt;  // The maximum arena size.
  /// The alignment of slots. A power of two.
  Bytes alignment = kDefaultAlignment;
  /// The addresses of params and states from another plan. If absent, this plan chooses addresses.
  std::optional<WeightLayout> weights = std::nullopt;
  Packer packer = Packer::kGreedy;
  Deadline deadline = {};   // Used by Packer::kBest (planner/packing/packer.h).
  bool in_place = true;     // Whether results may overwrite operands that die.
  DeviceNeeds device = {};  // Backend::Needs() of the target backend.
  /// The names of params that are not stored in the arena, such as constants of a program
  /// (compile/compile.h). They are in Region::kOutside. Other names are ignored.
  std::set<std::string> outside = {};
};

/// Plans `graph` and its bodies (planner/plan.h). Reserves regions for params, states, caches and
/// inputs first, then packs activations and workspace. Deterministic: equal graphs and options give
/// equal plans, unless the deadline passes.
///
/// Returns kBudgetTooSmall if the arena exceeds the budget. The message contains the budget, the
/// size of the arena, which is the smallest budget that this packing fits, the node at the peak,
/// and the largest buffers that are live there. Returns kInvalidArgument in these cases:
///
///   - The weight layout lacks a param or state, or has it with another type.
///   - The alignment is not a power of two, or does not divide the alignment of the weight layout.
///   - The budget is not positive.
///   - The sum of the sizes of all buffers does not fit 64 bits.
///   - The graph updates a param of `outside`, or has one in host memory.
Result<Plan> PlanMemory(const Graph& graph, const PlanOptions& options = {});

/// Returns a function that estimates the workspace that PlanMemory gives a node. For a node without
/// bodies, this is the workspace of `options.device`. For a node with bodies, each call plans the
/// bodies and returns their largest arena, or 0 if they cannot be planned. Every operand of a cond
/// that could die in the bodies is assumed to do so. If it does not, because it has later readers,
/// the plan may need more workspace.
WorkspaceFn NodeWorkspace(const PlanOptions& options);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLAN_MEMORY_H_
