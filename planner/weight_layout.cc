#include "planner/weight_layout.h"

#include "base/check.h"

namespace stowage {

WeightLayout WeightLayout::FromForward(const Graph& graph, const Plan& plan) {
  STOWAGE_CHECK(plan.buffer_of.size() ==
                static_cast<size_t>(graph.num_values()));
  WeightLayout layout;
  layout.weight_bytes_ = plan.regions.weights;
  layout.state_bytes_ = plan.regions.state;
  layout.alignment_ = plan.alignment;
  layout.host_state_bytes_ = plan.regions.host_state;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : graph.Leaves(role)) {
      const ValueInfo& value = graph.value(id);
      auto& slots = role == Role::kParam ? layout.weights_
                    : value.on_host      ? layout.host_states_
                                         : layout.states_;
      const auto buffer =
          static_cast<size_t>(plan.buffer_of[static_cast<size_t>(id)]);
      slots.emplace(value.name, Slot{value.type, plan.buffers[buffer].offset});
    }
  }
  return layout;
}

WeightLayout WeightLayout::WithoutStates() const {
  WeightLayout layout;
  layout.weights_ = weights_;
  layout.weight_bytes_ = weight_bytes_;
  layout.alignment_ = alignment_;
  return layout;
}

}  // namespace stowage
