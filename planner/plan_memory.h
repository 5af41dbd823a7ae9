#ifndef STOWAGE_PLANNER_PLAN_MEMORY_H_
#define STOWAGE_PLANNER_PLAN_MEMORY_H_

// The planner's door: a graph in, a place for every byte out, or the reason why
// the budget cannot hold it.
//
//   Result<Plan> plan = PlanMemory(step, {.budget = 64 << 20});
//   if (!plan.ok()) Print(plan.error().message);  // names the peak

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/lifetimes.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/plan.h"

namespace stowage {

// What the body of a cond makes, in bytes outside that hold nothing for a while: in those
// of an operand, from its death in the body on, and in those of a result until it is
// written first.
//
//   address ^
//           |  xxxx aaaaaaa        x, an operand of 2 slots, dies at time 4;
//           |  xxxx  bbb ccc       a, b and c are made later
//           +---------------> time
//
//   PlaceInHoles(&plan);  // of a body, before the rest of it is packed

/// Whether `buffer` is the slot of an operand that dies in the body with this plan.
bool IsDyingOperand(const Plan& plan, const PlannedBuffer& buffer);

/// Moves buffers of `plan` from the region of activations into holes, the largest
/// first, each into the smallest hole that has room for it throughout its life. What
/// finds none is left to be packed. Scratch stays: that of a node with bodies must lie
/// where it does whenever these run.
void PlaceInHoles(Plan* plan);

// Which buffers of a body lie outside of its arena: those of its leaves and of its
// outputs, which are where the operands and results of its node are.
//
//   Lifetimes lifetimes = ComputeLifetimes(body, {});
//   std::vector<int32_t> second_of = MoveOutside(body, node, true, &lifetimes);

/// Moves the buffers of the leaves and outputs of `body`, which is one of `node`'s, into
/// the region kOutside, where they live throughout; but leaves that die in a cond's
/// (LifetimeOptions::dying) do not, nor do its outputs until they are written. What a
/// loop hands on shares one buffer, leaf and output, if its leaf has been read for the
/// last time when anything is written there, or, with `in_place`, where the first node
/// that writes there may write over the leaf. All else that is handed on from one
/// iteration to another gets a second place in the region kIo: what is returned are
/// these, by carried and then summed value, -1 where there is none. Linear in values
/// and operands.
std::vector<int32_t> MoveOutside(const Graph& body, const Node& node,
                                 bool in_place, Lifetimes* lifetimes);

using packing::Deadline;
using packing::Packer;

inline constexpr Bytes kDefaultAlignment = 256;

struct PlanOptions {
  std::optional<Bytes> budget =
      std::nullopt;                     // the most bytes the arena may take
  Bytes alignment = kDefaultAlignment;  // of every slot; a power of two
  std::optional<WeightLayout> weights =
      std::nullopt;  // given by another plan; absent: decided here
  Packer packer = Packer::kGreedy;
  Deadline deadline = {};  // of the best packer; see planner/packing/packer.h
  bool in_place = true;
  DeviceNeeds device = {};  // of the backend that will run it: Backend::Needs()
};

/// Plans `graph`, and the bodies in it (planner/plan.h). The reserved regions come first, then activations and scratch
/// are packed around them. Errors: kBudgetTooSmall, naming the budget, the
/// need, the peak's node, the largest live buffers and the smallest budget that
/// works; kInvalidArgument for a param or state that the weight layout lacks or
/// holds with another type, an alignment that is no power of two, sums beyond
/// 64 bits. Deterministic: same graph and options, same plan, byte for byte,
/// unless the deadline passes.
Result<Plan> PlanMemory(const Graph& graph, const PlanOptions& options = {});

/// Scratch of each node as PlanMemory plans it: what `options.device` asks for, and for
/// a node with bodies the largest arena of these, which it plans each time it is asked.
/// Of a cond, all operands die in them there that may, so that a plan may take more.
WorkspaceFn NodeWorkspace(const PlanOptions& options);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLAN_MEMORY_H_
