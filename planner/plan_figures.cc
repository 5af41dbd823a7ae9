#include "planner/plan_figures.h"

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "planner/lifetimes.h"
#include "planner/packing/caching_allocator.h"

namespace stowage {

Span SpanOf(const Plan& plan, bool on_host) {
  Span span;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    const bool is_packed = buffer.region == Region::kActivations ||
                           buffer.region == Region::kWorkspace ||
                           buffer.region == Region::kHostOffload;
    if (!is_packed || IsOnHost(buffer.region) != on_host) continue;
    span.buffers.push_back(i);
    span.problem.buffers.push_back(
        {.id = "",
         .lower = buffer.lower,
         .upper = buffer.upper,
         .size = AlignUp(buffer.size, plan.alignment),
         .alignment = plan.alignment,
         .offset = std::nullopt});
  }
  return span;
}

packing::Problem WithBoundsOfBodies(const Plan& plan, const Span& span) {
  std::vector<Bytes> least(plan.buffers.size(), -1);
  for (const BodyPlan& body : plan.bodies) {
    const int32_t scratch = plan.workspace_of[Index(body.node)];
    if (scratch < 0) continue;
    Bytes& bound = least[Index(scratch)];
    bound = std::max(bound, body.plan.lower_bound);
  }
  packing::Problem problem = span.problem;
  for (size_t i = 0; i < span.buffers.size(); ++i) {
    if (least[span.buffers[i]] >= 0) {
      problem.buffers[i].size = AlignUp(least[span.buffers[i]], plan.alignment);
    }
  }
  return problem;
}

packing::LowerBound LowerBoundOf(const Plan& plan) {
  packing::LowerBound bound = packing::ComputeLowerBound(
      WithBoundsOfBodies(plan, SpanOf(plan, /*on_host=*/false)));
  bound.bytes += plan.regions.weights + plan.regions.state + plan.regions.io;
  return bound;
}

Bytes NoReuseBytes(const Graph& graph, const Layouts& layouts,
                   const Plan& plan) {
  Bytes sum = plan.regions.weights + plan.regions.state + plan.regions.io;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& value = graph.value(id);
    const bool owns = layouts[Index(id)].root == id;
    const PlannedBuffer& slot = plan.buffers[Index(plan.buffer_of[Index(id)])];
    if (slot.region == Region::kOutside) continue;
    const bool reserved = value.is_leaf() && value.role != Role::kSaved;
    if (owns && !reserved && !value.on_host) {
      sum += AlignUp(value.type.bytes(), plan.alignment);
    }
  }
  Bytes scratch = 0;
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.region == Region::kWorkspace) {
      scratch = std::max(scratch, AlignUp(buffer.size, plan.alignment));
    }
  }
  return sum + scratch;
}

Bytes CachingAllocatorBytes(const Plan& plan) {
  packing::Problem problem;
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (IsOnHost(buffer.region) || buffer.region == Region::kOutside) continue;
    problem.buffers.push_back({.id = "",
                               .lower = buffer.lower,
                               .upper = buffer.upper,
                               .size = buffer.size,
                               .alignment = 1,
                               .offset = std::nullopt});
  }
  return packing::SimulateCachingAllocator(problem);
}

}  // namespace stowage
