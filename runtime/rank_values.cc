#include "runtime/rank_values.h"

namespace stowage {

std::optional<int64_t> BlockOf(const RankValues& values, const Graph& step,
                               const ValueInfo& value) {
  if (values.own_name == nullptr) return std::nullopt;
  const std::optional<ValueId> id = step.Find(values.own_name(value.name));
  if (!id) return std::nullopt;
  const ValueInfo& block = step.value(*id);
  if (block.role != value.role) return std::nullopt;
  return block.type.shape.num_elements();
}

std::vector<ValueId> PersistentValues(const Graph& graph) {
  std::vector<ValueId> values = graph.Leaves(Role::kParam);
  for (const ValueId id : graph.Leaves(Role::kState)) values.push_back(id);
  return values;
}

}  // namespace stowage
