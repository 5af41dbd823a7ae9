#include "ir/parameter_count.h"

#include <variant>
#include <vector>

#include "ir/attrs.h"
#include "ir/weight_type.h"

namespace stowage {

int64_t ParameterCount(const Graph& graph) {
  // Of each value, how many numbers a byte of it holds: blocks over their bytes.
  std::vector<const BlockFormat*> blocks(
      static_cast<size_t>(graph.num_values()), nullptr);
  for (const Node& node : graph.nodes()) {
    const AttrValue* const attr = node.attrs.Find("blocks");
    if (attr == nullptr || std::get<int64_t>(*attr) == kNoBlocks) continue;
    const auto type = static_cast<WeightType>(std::get<int64_t>(*attr));
    for (const ValueId input : node.inputs) {
      blocks[static_cast<size_t>(input)] = &FormatOf(type);
    }
  }
  int64_t count = 0;
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const TensorType& type = graph.value(id).type;
    const BlockFormat* const format = blocks[static_cast<size_t>(id)];
    const bool in_blocks = type.dtype == DType::kU8 && format != nullptr;
    count += in_blocks ? type.bytes() / format->bytes * format->numbers
                       : type.shape.num_elements();
  }
  return count;
}

}  // namespace stowage
