#include "planner/weight_layout.h"

#include <utility>

#include "base/check.h"

namespace stowage {

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
      auto& slots = role == Role::kParam ? layout.weights
                    : value.on_host      ? layout.host_states
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
  return WeightLayout(std::move(layout));
}

}  // namespace stowage
