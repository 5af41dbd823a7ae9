#include "runtime/program.h"

#include <utility>

#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage {

Result<Program> Program::Resolve(Graph graph, Plan plan, std::byte* arena,
                                 std::byte* host) {
  STOWAGE_RETURN_IF_ERROR(CheckPlanIsFor(plan, graph));
  auto state = std::make_unique<State>();
  state->graph = std::move(graph);
  state->plan = std::move(plan);
  const Graph& g = state->graph;
  const Plan& p = state->plan;

  const auto address = [&](int32_t index) {
    const PlannedBuffer& buffer = p.buffers[static_cast<size_t>(index)];
    return (IsOnHost(buffer.region) ? host : arena) + p.AddressOf(buffer);
  };
  const Layouts layouts = ComputeLayouts(g);
  state->views.reserve(static_cast<size_t>(g.num_values()));
  for (ValueId id = 0; id < g.num_values(); ++id) {
    const Layout& layout = layouts[static_cast<size_t>(id)];
    state->views.push_back(
        {address(p.buffer_of[static_cast<size_t>(id)]) + layout.byte_offset,
         g.value(id).type, layout.strides});
  }

  size_t operands = 0;
  for (const Node& node : g.nodes()) {
    operands += node.inputs.size() + node.results.size();
  }
  state->operands.reserve(
      operands);  // never grows again: launches point into it
  const auto append = [&](std::span<const ValueId> ids) {
    const size_t first = state->operands.size();
    for (const ValueId id : ids) {
      state->operands.push_back(state->views[static_cast<size_t>(id)]);
    }
    return std::span<const TensorView>(state->operands)
        .subspan(first, ids.size());
  };
  for (NodeId n = 0; n < g.num_nodes(); ++n) {
    const Node& node = g.node(n);
    if (GetOpDef(node.op).is_view()) continue;
    Launch launch;
    launch.op = node.op;
    launch.node = n;
    launch.attrs = &node.attrs;
    launch.inputs = append(node.inputs);
    launch.outputs = append(node.results);
    if (const int32_t scratch = p.workspace_of[static_cast<size_t>(n)];
        scratch >= 0) {
      const Bytes size = p.buffers[static_cast<size_t>(scratch)].size;
      launch.workspace = {address(scratch), static_cast<size_t>(size)};
    }
    state->launches.push_back(launch);
  }
  for (const GraphOutput& output : g.outputs()) {
    const TensorType& type = g.value(output.value).type;
    if (type.dtype == DType::kF32 && type.shape.num_elements() == 1) {
      state->scalars.push_back(output.value);
    }
  }
  if (p.reserve >= 0) {
    const Bytes size = p.buffers[static_cast<size_t>(p.reserve)].size;
    state->reserve = {address(p.reserve), static_cast<size_t>(size)};
  }
  return Program(std::move(state));
}

}  // namespace stowage
