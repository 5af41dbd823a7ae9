#include "tests/gpu/kernel_leaves.h"

#include <cmath>
#include <random>

#include "tests/support/elements.h"

namespace stowage {

double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF16:
      return 0x1p-10;
    default:
      return 1e-5;
  }
}

Tensors RandomLeaves(const Graph& graph, const LeafRange& range,
                     uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    std::vector<double>& elements = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
      const double x =
          IsFloat(value.type.dtype)
              ? range.low + uniform * (range.high - range.low)
              : std::floor(uniform * static_cast<double>(range.index_limit));
      std::byte stored[8];
      EncodeElement(value.type.dtype, x, stored);
      elements.push_back(DecodeElement(value.type.dtype, stored));
    }
  }
  return leaves;
}

}  // namespace stowage
