#include "planner/plan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/element_groups.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/text.h"
#include "planner/lifetimes.h"
#include "planner/packing/caching_allocator.h"

namespace stowage {

Bytes Plan::RegionBase(Region region) const {
  switch (region) {
    case Region::kWeights:
      return 0;
    case Region::kState:
      return regions.weights;
    case Region::kIo:
      return regions.weights + regions.state;
    case Region::kActivations:
    case Region::kWorkspace:
      return regions.weights + regions.state + regions.io;
    case Region::kHostState:
      return 0;
    case Region::kHostOffload:
      return regions.host_state;
    case Region::kOutside:
      return 0;
  }
  STOWAGE_CHECK(false);
}

std::vector<int32_t> LiveAt(const Plan& plan, Time time) {
  std::vector<int32_t> live;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan.buffers[i];
    if (IsOnHost(buffer.region) || buffer.region == Region::kOutside) continue;
    if (buffer.lower <= time && time < buffer.upper) {
      live.push_back(static_cast<int32_t>(i));
    }
  }
  std::ranges::stable_sort(live, [&](int32_t a, int32_t b) {
    return plan.buffers[static_cast<size_t>(a)].size >
           plan.buffers[static_cast<size_t>(b)].size;
  });
  return live;
}

uint64_t Fingerprint(const Graph& graph) {
  Fnv1a hash;
  hash.Update(ToText(graph));
  return hash.digest();
}

namespace {

bool Fits(const Plan& plan, const Graph& graph) {
  return plan.buffer_of.size() == static_cast<size_t>(graph.num_values()) &&
         plan.workspace_of.size() == static_cast<size_t>(graph.num_nodes()) &&
         plan.host_workspace_of.size() == plan.workspace_of.size();
}

Error ForAnother(const Plan& plan, const Graph& graph) {
  if (plan.host_workspace_of.size() != plan.workspace_of.size()) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[plan] the plan says of ", plan.host_workspace_of.size(),
               " nodes what their bodies keep on the host, and of ",
               plan.workspace_of.size(),
               " what scratch they have; plan the graph again")};
  }
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[plan] the plan was made for another graph: it is for ",
             Quoted(plan.graph_name), " with ", plan.buffer_of.size(),
             " values and ", plan.workspace_of.size(), " nodes, this is ",
             Quoted(graph.name()), " with ", graph.num_values(), " and ",
             graph.num_nodes(), "; plan this graph")};
}

}  // namespace

Status CheckPlanIsFor(const Plan& plan, const Graph& graph) {
  if (Fits(plan, graph) && plan.fingerprint == Fingerprint(graph)) return {};
  return ForAnother(plan, graph);
}

Status CheckPlanFits(const Plan& plan, const Graph& graph) {
  if (Fits(plan, graph)) return {};
  return ForAnother(plan, graph);
}

WeightLayout WeightLayout::FromForward(const Graph& graph, const Plan& plan) {
  STOWAGE_CHECK(plan.buffer_of.size() ==
                static_cast<size_t>(graph.num_values()));
  Content layout;
  layout.weight_bytes = plan.regions.weights;
  layout.state_bytes = plan.regions.state;
  layout.alignment = plan.alignment;
  layout.host_state_bytes = plan.regions.host_state;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : graph.Leaves(role)) {
      const ValueInfo& value = graph.value(id);
      auto& slots = value.on_host          ? layout.on_host
                    : role == Role::kParam ? layout.weights
                                           : layout.states;
      const auto buffer =
          static_cast<size_t>(plan.buffer_of[static_cast<size_t>(id)]);
      slots.emplace(value.name, Slot{value.type, plan.buffers[buffer].offset});
    }
  }
  return WeightLayout(std::move(layout));
}

WeightLayout WeightLayout::WithoutStates() const {
  Content layout;
  layout.weights = weights();
  layout.weight_bytes = weight_bytes();
  layout.alignment = alignment();
  layout.may_move = true;
  return WeightLayout(std::move(layout));
}

namespace {

Bytes WireBytes(const Graph& graph, const Node& node) {
  if (!GetOpDef(node.op).collective) return 0;
  const int64_t ranks = node.attrs.Int("ranks");
  const auto bytes_of = [&](ValueId id) {
    return graph.value(id).type.bytes();
  };
  // What rank 0, whose block is none of the short ones, keeps of what it has, or gives to
  // each of the others.
  switch (node.op) {
    case OpKind::kAllReduce: {
      const TensorType& whole = graph.value(node.inputs[0]).type;
      const Bytes block =
          RankBlock(whole.shape.num_elements(), ranks, 1) * SizeOf(whole.dtype);
      return whole.bytes() - block + (ranks - 1) * block;
    }
    case OpKind::kReduceScatter: {
      const Bytes whole = bytes_of(node.inputs[0]);
      return whole - std::min(whole, bytes_of(node.results[0]));
    }
    case OpKind::kAllGather:
    case OpKind::kAllGatherUpdate: {
      const Bytes whole = bytes_of(node.results[0]);
      return (ranks - 1) * std::min(whole, bytes_of(node.inputs.back()));
    }
    default:
      return 0;
  }
}

}  // namespace

Bytes WireBytes(const Graph& graph) {
  Bytes bytes = 0;
  for (const Node& node : graph.nodes()) bytes += WireBytes(graph, node);
  return bytes;
}

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
