#include "runtime/program.h"

#include <utility>

#include "base/bytes.h"

namespace stowage {

Result<Program> Program::Resolve(Graph graph, Plan plan, std::byte* arena,
                                 std::byte* host) {
  STOWAGE_RETURN_IF_ERROR(CheckPlanIsFor(plan, graph));
  auto state = std::make_unique<State>();
  state->graph = std::move(graph);
  state->plan = std::move(plan);
  state->host = host;
  const Graph& g = state->graph;
  const Plan& p = state->plan;
  ResolveLaunches(g, p, arena, host, &state->resolved);
  for (const GraphOutput& output : g.outputs()) {
    const TensorType& type = g.value(output.value).type;
    if (type.dtype == DType::kF32 && type.shape.num_elements() == 1) {
      state->scalars.push_back(output.value);
    }
  }
  if (p.reserve >= 0) {
    const PlannedBuffer& reserve = p.buffers[Index(p.reserve)];
    state->reserve = {arena + p.AddressOf(reserve),
                      static_cast<size_t>(reserve.size)};
  }
  return Program(std::move(state));
}

}  // namespace stowage
