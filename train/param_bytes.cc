#include "train/param_bytes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "autodiff/backward.h"

namespace stowage {

ParamBytes MeasureParamBytes(const Graph& graph, const Plan& plan) {
  ParamBytes bytes = {.weights = plan.regions.weights,
                      .states = plan.regions.state + plan.regions.host_state};
  std::set<int32_t> gradients;  // their buffers
  for (const ValueId param : graph.Leaves(Role::kParam)) {
    const ValueInfo& info = graph.value(param);
    bytes.params += info.type.shape.num_elements();
    const std::optional<ValueId> gradient = graph.Find(GradientName(info.name));
    if (gradient) {
      gradients.insert(plan.buffer_of[static_cast<size_t>(*gradient)]);
    }
  }
  std::map<Time, Bytes> changes;
  for (const int32_t buffer : gradients) {
    const PlannedBuffer& planned = plan.buffers[static_cast<size_t>(buffer)];
    changes[planned.lower] += planned.size;
    changes[planned.upper] -= planned.size;
  }
  Bytes live = 0;
  for (const auto& [time, change] : changes) {
    live += change;
    bytes.gradients = std::max(bytes.gradients, live);
  }
  return bytes;
}

}  // namespace stowage
