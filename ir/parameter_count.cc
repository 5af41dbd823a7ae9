#include "ir/parameter_count.h"

#include <vector>

#include "ir/op_kind.h"
#include "ir/weight_type.h"

namespace stowage {
namespace {

// A program's own op may have an attribute of that name, too.
bool ReadsBlocks(OpKind op) {
  return op == OpKind::kQuantizedMatMul || op == OpKind::kQuantizedGather ||
         op == OpKind::kLinearCrossEntropy ||
         op == OpKind::kLinearCrossEntropyGrad;
}

}  // namespace

int64_t ParameterCount(const Graph& graph) {
  // Of each value that is read in blocks, their format.
  std::vector<const BlockFormat*> blocks(
      static_cast<size_t>(graph.num_values()), nullptr);
  for (const Node& node : graph.nodes()) {
    if (!ReadsBlocks(node.op) || node.attrs.Int("blocks") == kNoBlocks)
      continue;
    const auto type = static_cast<WeightType>(node.attrs.Int("blocks"));
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
