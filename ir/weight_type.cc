#include "ir/weight_type.h"

#include <array>

#include "base/check.h"

namespace stowage {
namespace {

constexpr std::array<BlockFormat, kWeightTypes> kFormats = {{
#define STOWAGE_WEIGHT_TYPE(name, numbers, bytes) {#name, numbers, bytes},
#include "ir/weight_types.def"
}};

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

}  // namespace stowage
