#include "runtime/program.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "ir/op_kind.h"
#include "runtime/control_flow.h"

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

LaunchAccesses::LaunchAccesses(const Launch& launch) {
  for (const TensorView& input : launch.inputs) {
    reads_.push_back(RangeOf(input));
  }
  // The bodies of a cond may write over operands that die in them.
  if (launch.op == OpKind::kCond) writes_ = reads_;
  for (const TensorView& output : launch.outputs) {
    writes_.push_back(RangeOf(output));
  }
  const auto writes = [this](std::span<std::byte> scratch) {
    const auto begin = reinterpret_cast<uintptr_t>(scratch.data());
    writes_.push_back({begin, begin + scratch.size()});
  };
  writes(launch.workspace);
  if (launch.control != nullptr) writes(launch.control->host_workspace());
}

bool LaunchAccesses::MayRunBeside(const LaunchAccesses& other) const {
  return !Meet(writes_, other.writes_) && !Meet(writes_, other.reads_) &&
         !Meet(reads_, other.writes_);
}

LaunchAccesses::Range LaunchAccesses::RangeOf(const TensorView& view) {
  if (view.size() == 0) return {};
  int64_t first = 0, last = 0;
  for (int axis = 0; axis < view.shape().rank(); ++axis) {
    const int64_t reach = (view.shape()[axis] - 1) * view.strides[axis];
    (reach < 0 ? first : last) += reach;
  }
  const Bytes element = SizeOf(view.dtype());
  const auto data = reinterpret_cast<uintptr_t>(view.data);
  return {data + static_cast<uintptr_t>(first * element),
          data + static_cast<uintptr_t>((last + 1) * element)};
}

bool LaunchAccesses::Meet(const Ranges& some, const Ranges& others) {
  return std::ranges::any_of(some, [&](const Range& a) {
    return std::ranges::any_of(others, [&](const Range& b) {
      return a.begin < b.end && b.begin < a.end;
    });
  });
}

}  // namespace stowage
