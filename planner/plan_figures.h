#ifndef STOWAGE_PLANNER_PLAN_FIGURES_H_
#define STOWAGE_PLANNER_PLAN_FIGURES_H_

// Reference figures for a plan, computed from its slots and their lifetimes: the lower
// bound of any packing, the bytes without reuse, and those of a caching allocator. The
// planner stores these figures in the plan; readers of a plan file compute them again.
//
//   Plan plan = *PlanMemory(graph);
//   LowerBoundOf(plan).bytes <= plan.arena_bytes();
//   NoReuseBytes(graph, ComputeLayouts(graph), plan) >= plan.arena_bytes();

#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "planner/plan.h"

namespace stowage {

/// The values packed by lifetime, in the arena or on the host. Sizes are rounded up to
/// the alignment: since all offsets are multiples of it, the padding could hold nothing.
struct Span {
  packing::Problem problem;
  std::vector<size_t> buffers;  // of the plan, in the problem's order
};
Span SpanOf(const Plan& plan, bool on_host);

/// `span` of the plan, with the lower bounds of bodies instead of their sizes, so that
/// its lower bound holds however they are packed.
packing::Problem WithBoundsOfBodies(const Plan& plan, const Span& span);

/// The reserved regions plus the largest live sum of the rest, and its time; for the plan
/// of a graph, not of a body. O(n log n) in buffers.
packing::LowerBound LowerBoundOf(const Plan& plan);

/// A slot for every non-view value, and one for the largest workspace, given the graph's
/// layouts.
Bytes NoReuseBytes(const Graph& graph, const Layouts& layouts,
                   const Plan& plan);

/// The maximum that a caching allocator (planner/packing/caching_allocator.h) reserves on
/// the same schedule.
Bytes CachingAllocatorBytes(const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLAN_FIGURES_H_
