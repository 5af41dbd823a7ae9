#ifndef STOWAGE_PLANNER_PLAN_MEMORY_H_
#define STOWAGE_PLANNER_PLAN_MEMORY_H_

// The planner's door: a graph in, a place for every byte out, or the reason why
// the budget cannot hold it.
//
//   Result<Plan> plan = PlanMemory(step, {.budget = 64 << 20});
//   if (!plan.ok()) Print(plan.error().message);  // names the peak

#include <optional>

#include "base/result.h"
#include "planner/packing/deadline.h"
#include "planner/packing/packer.h"
#include "planner/plan.h"
#include "planner/weight_layout.h"

namespace stowage {

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
