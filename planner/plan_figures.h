#ifndef STOWAGE_PLANNER_PLAN_FIGURES_H_
#define STOWAGE_PLANNER_PLAN_FIGURES_H_

// What a plan is compared with, computed from its slots and their lifetimes: the least
// that any packing of them takes, what they take without reuse, and what a caching
// allocator takes. The planner states these figures in the plan; whoever reads a plan
// file computes them again.
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

/// What is packed by lifetime, in the arena or on the host. Sizes are rounded up to the
/// alignment: all offsets being multiples of it, the rest could hold nothing.
struct Span {
  packing::Problem problem;
  std::vector<size_t> buffers;  // of the plan, in the problem's order
};
Span SpanOf(const Plan& plan, bool on_host);

/// `span` of the plan, with what bodies need at least in place of what they take, so that
/// its lower bound holds however they are packed.
packing::Problem WithBoundsOfBodies(const Plan& plan, const Span& span);

/// The reserved regions and the largest live sum beside them, and when it is reached; of
/// the plan of a graph, not of a body. O(n log n) in buffers.
packing::LowerBound LowerBoundOf(const Plan& plan);

/// A slot for every value that is no view, and one for the largest scratch, given the
/// graph's layouts.
Bytes NoReuseBytes(const Graph& graph, const Layouts& layouts,
                   const Plan& plan);

/// The most that a caching allocator (planner/packing/caching_allocator.h) reserves on the
/// same schedule.
Bytes CachingAllocatorBytes(const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_PLAN_FIGURES_H_
