#include "runtime/control_flow.h"

#include <algorithm>

#include "base/bytes.h"
#include "ir/bodies.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage {

ResolvedLaunches::ResolvedLaunches() = default;
ResolvedLaunches::~ResolvedLaunches() = default;

void ResolveLaunches(const Graph& graph, const Plan& plan, std::byte* arena,
                     std::byte* host, ResolvedLaunches* to) {
  const auto address = [&](int32_t index) {
    const PlannedBuffer& buffer = plan.buffers[Index(index)];
    return (IsOnHost(buffer.region) ? host : arena) + plan.AddressOf(buffer);
  };
  const Layouts layouts = ComputeLayouts(graph);
  to->views.reserve(Index(graph.num_values()));
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const Layout& layout = layouts[Index(id)];
    const int32_t buffer = plan.buffer_of[Index(id)];
    const bool is_outside =
        plan.buffers[Index(buffer)].region == Region::kOutside;
    to->views.push_back(
        {is_outside ? nullptr : address(buffer) + layout.byte_offset,
         graph.value(id).type, layout.strides});
  }

  size_t operands = 0;
  for (const Node& node : graph.nodes()) {
    operands += node.inputs.size() + node.results.size();
  }
  to->operands.reserve(operands);  // never grows again: launches point into it
  const auto append = [&](std::span<const ValueId> ids) {
    const size_t first = to->operands.size();
    for (const ValueId id : ids) {
      to->operands.push_back(to->views[Index(id)]);
      to->values.push_back(id);
    }
    return std::span<const TensorView>(to->operands).subspan(first, ids.size());
  };
  auto bodies = plan.bodies.begin();
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    if (GetOpDef(node.op).is_view()) continue;
    Launch launch;
    launch.op = node.op;
    launch.node = n;
    launch.attrs = &node.attrs;
    launch.inputs = append(node.inputs);
    launch.outputs = append(node.results);
    if (const int32_t scratch = plan.workspace_of[Index(n)]; scratch >= 0) {
      const Bytes size = plan.buffers[Index(scratch)].size;
      launch.workspace = {address(scratch), static_cast<size_t>(size)};
    }
    if (const size_t count = BodiesOf(node).size(); count > 0) {
      const std::span plans(bodies, count);
      bodies += static_cast<std::ptrdiff_t>(count);
      std::span<std::byte> on_host;
      if (const int32_t part = plan.host_workspace_of[Index(n)]; part >= 0) {
        const Bytes size = plan.buffers[Index(part)].size;
        on_host = {address(part), static_cast<size_t>(size)};
      }
      to->controls.push_back(std::make_unique<ControlFlow>(
          node, plans, launch.workspace.data(), on_host));
      launch.control = to->controls.back().get();
    }
    to->launches.push_back(launch);
  }
}

std::vector<std::vector<int32_t>> DeathsAfterLaunches(
    const Graph& graph, const Plan& plan, std::span<const Launch> launches) {
  std::vector<std::vector<int32_t>> deaths(launches.size());
  const auto& buffers = plan.buffers;
  for (size_t b = 0; b < buffers.size(); ++b) {
    const Region region = buffers[b].region;
    if (region != Region::kActivations && region != Region::kWorkspace &&
        region != Region::kHostOffload && region != Region::kOutside) {
      continue;
    }
    // The last launch inside the lifetime; views take time but launch nothing.
    const auto after = std::ranges::partition_point(
        launches,
        [&](const Launch& launch) { return launch.node < buffers[b].upper; });
    const bool ends = buffers[b].upper <= graph.num_nodes();
    if (after == launches.begin() || !ends) continue;
    const auto last = static_cast<size_t>(after - launches.begin()) - 1;
    deaths[last].push_back(static_cast<int32_t>(b));
  }
  return deaths;
}

ControlFlow::ControlFlow(const Node& node, std::span<const BodyPlan> plans,
                         std::byte* workspace,
                         std::span<std::byte> host_workspace)
    : loop_(node.op == OpKind::kLoop
                ? std::optional<LoopParts>(PartsOfLoop(node))
                : std::nullopt),
      workspace_(workspace),
      host_workspace_(host_workspace) {
  const auto bodies = BodiesOf(node);
  for (size_t b = 0; b < bodies.size(); ++b) {
    AddBody(*bodies[b], plans[b].plan);
  }
  if (!loop_) return;
  const Plan& plan = plans.front().plan;
  for (size_t i = 0; i < loop_->handed_on(); ++i) {
    const int32_t second = plans.front().second_of[i];
    const ValueId output = loop_->body.outputs()[i].value;
    handed_.push_back(
        {second < 0 ? nullptr
                    : workspace + plan.AddressOf(plan.buffers[Index(second)]),
         loop_->body.value(output).type.bytes()});
  }
}

void ControlFlow::AddBody(const Graph& graph, const Plan& plan) {
  auto body = std::make_unique<Body>();
  body->graph = &graph;
  ResolvedLaunches& resolved = body->resolved;
  ResolveLaunches(graph, plan, workspace_, host_workspace_.data(), &resolved);
  // Values in an outside buffer are placed with its output, if there is one, else with its
  // leaf; leaves and views of leaves always with the leaf.
  const Layouts layouts = ComputeLayouts(graph);
  const std::vector<ValueId> leaves = LeavesOf(graph);
  std::vector<size_t> slot_of(plan.buffers.size(), 0);
  for (size_t i = 0; i < leaves.size(); ++i) {
    slot_of[Index(plan.buffer_of[Index(leaves[i])])] = i;
  }
  for (size_t r = 0; r < graph.outputs().size(); ++r) {
    const ValueId output = graph.outputs()[r].value;
    slot_of[Index(plan.buffer_of[Index(output)])] = leaves.size() + r;
  }
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const int32_t within = plan.buffers[b].within;
    if (within >= 0) slot_of[b] = slot_of[Index(within)];
  }
  std::vector<size_t> slot_of_leaf(Index(graph.num_values()), 0);
  for (size_t i = 0; i < leaves.size(); ++i) slot_of_leaf[Index(leaves[i])] = i;
  for (size_t i = 0; i < resolved.operands.size(); ++i) {
    const ValueId id = resolved.values[i];
    const int32_t index = plan.buffer_of[Index(id)];
    const PlannedBuffer& buffer = plan.buffers[Index(index)];
    if (buffer.region != Region::kOutside) continue;
    const Layout& layout = layouts[Index(id)];
    const bool of_leaf = graph.value(layout.root).is_leaf();
    body->outside.push_back(
        {&resolved.operands[i],
         of_leaf ? slot_of_leaf[Index(layout.root)] : slot_of[Index(index)],
         buffer.offset + layout.byte_offset});
  }
  for (const auto& deaths :
       DeathsAfterLaunches(graph, plan, resolved.launches)) {
    auto& dead = body->dead.emplace_back();
    dead.reserve(deaths.size());  // never grows again: it is pointed into
    for (const int32_t index : deaths) {
      const PlannedBuffer& buffer = plan.buffers[Index(index)];
      const bool is_outside = buffer.region == Region::kOutside;
      std::byte* const base =
          IsOnHost(buffer.region) ? host_workspace_.data() : workspace_;
      dead.emplace_back(is_outside ? nullptr : base + plan.AddressOf(buffer),
                        static_cast<size_t>(buffer.size));
      if (!is_outside) continue;
      body->dead_outside.push_back(
          {&dead.back(), slot_of[Index(index)], buffer.offset});
    }
  }
  places_.resize(
      std::max(places_.size(), leaves.size() + graph.outputs().size()));
  bodies_.push_back(std::move(body));
}

std::byte* ControlFlow::Left(const Launch& launch, size_t handed,
                             int64_t i) const {
  const bool in_second =
      handed_[handed].second != nullptr && (iterations() - 1 - i) % 2 != 0;
  return in_second ? handed_[handed].second : launch.outputs[handed].data;
}

TensorView ControlFlow::FirstSum(const Launch& launch, size_t sum) const {
  const size_t handed = loop_->carried + sum;
  TensorView first = launch.outputs[handed];
  first.data = Left(launch, handed, -1);
  return first;
}

std::span<std::byte> ControlFlow::ReadPlace(const Launch& launch, size_t handed,
                                            int64_t i) const {
  if (handed_[handed].second == nullptr) return {};
  if (i == 0 && handed < loop_->carried) return {};
  return {Left(launch, handed, i - 1),
          static_cast<size_t>(handed_[handed].bytes)};
}

void ControlFlow::Place(const Launch& launch, size_t body, int64_t iteration) {
  const Body& b = *bodies_[body];
  if (loop_) {
    const LoopParts& loop = *loop_;
    const int64_t slice = loop.slice(iteration);
    const size_t leaves = loop.operands() + loop.summed;
    for (size_t i = 0; i < loop.operands(); ++i) {
      const TensorView& operand = launch.inputs[i];
      const int64_t first = loop.is_sliced(i) ? slice * operand.strides[0] : 0;
      places_[i] = operand.data + first * SizeOf(operand.dtype());
    }
    for (size_t i = 0; i < loop.handed_on(); ++i) {
      if (iteration > 0 || i >= loop.carried) {
        places_[loop.leaf_of(i)] = Left(launch, i, iteration - 1);
      }
      places_[leaves + i] = Left(launch, i, iteration);
    }
    for (size_t r = loop.handed_on(); r < loop.outputs(); ++r) {
      const TensorView& result = launch.outputs[r];
      places_[leaves + r] =
          result.data + slice * result.strides[0] * SizeOf(result.dtype());
    }
  } else {
    const size_t leaves = launch.inputs.size() - 1;
    for (size_t i = 0; i < leaves; ++i) {
      places_[i] = launch.inputs[i + 1].data;
    }
    for (size_t r = 0; r < launch.outputs.size(); ++r) {
      places_[leaves + r] = launch.outputs[r].data;
    }
  }
  for (const Outside& outside : b.outside) {
    outside.view->data = places_[outside.slot] + outside.offset;
  }
  for (const DeadOutside& dead : b.dead_outside) {
    *dead.bytes = {places_[dead.slot] + dead.offset, dead.bytes->size()};
  }
}

}  // namespace stowage
