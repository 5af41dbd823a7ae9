#include "ir/weight_type.h"

#include <array>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/op_kind.h"

namespace stowage {
namespace {

constexpr std::array<BlockFormat, kWeightTypes> kFormats = {{
#define STOWAGE_WEIGHT_TYPE(name, numbers, bytes) {#name, numbers, bytes},
#include "ir/weight_types.def"
}};

// Ops with the attribute "blocks". Ops that a program defines may have one of that name
// with another meaning.
bool ReadsBlocks(OpKind op) {
  return op == OpKind::kQuantizedMatMul || op == OpKind::kQuantizedGather ||
         op == OpKind::kLinearCrossEntropy ||
         op == OpKind::kLinearCrossEntropyGrad;
}

}  // namespace

const BlockFormat& FormatOf(WeightType type) {
  return kFormats[static_cast<size_t>(type)];
}

Bytes BytesOf(WeightType type, int64_t numbers) {
  const BlockFormat& format = FormatOf(type);
  STOWAGE_CHECK(numbers % format.numbers == 0);
  return numbers / format.numbers * format.bytes;
}

std::optional<TensorType> BytesOfMatrix(WeightType type, const Shape& matrix) {
  if (matrix.rank() != 2) return std::nullopt;
  if (matrix[1] % FormatOf(type).numbers != 0) return std::nullopt;
  return TensorType{DType::kU8, {matrix[0], BytesOf(type, matrix[1])}};
}

std::optional<int64_t> NumbersOf(WeightType type, Bytes row_bytes) {
  const BlockFormat& format = FormatOf(type);
  if (row_bytes % format.bytes != 0) return std::nullopt;
  return row_bytes / format.bytes * format.numbers;
}

int64_t ParameterCount(const Graph& graph) {
  // By value: the format of its blocks, if an op reads it in blocks.
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
