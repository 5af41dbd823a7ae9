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
  const auto collect = [&](Role role,
                           std::unordered_map<std::string, Slot>* slots) {
    for (const ValueId id : graph.Leaves(role)) {
      const auto buffer =
          static_cast<size_t>(plan.buffer_of[static_cast<size_t>(id)]);
      slots->emplace(graph.value(id).name,
                     Slot{graph.value(id).type, plan.buffers[buffer].offset});
    }
  };
  collect(Role::kParam, &layout.weights_);
  collect(Role::kState, &layout.states_);
  return layout;
}

}  // namespace stowage
