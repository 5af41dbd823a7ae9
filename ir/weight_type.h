#ifndef STOWAGE_IR_WEIGHT_TYPE_H_
#define STOWAGE_IR_WEIGHT_TYPE_H_

// Describes the number formats of weight files: floats of 32 and 16 bits, and the quantized block
// formats of GGUF, in which neighboring numbers share a scale. A row of a matrix is a whole number
// of blocks, so rows can be read and copied without decoding.
//
// In a graph, a quantized matrix is a u8 param with shape (rows, bytes per row). The ops that read
// it (quantized_matmul, quantized_gather, linear_cross_entropy) have its format as an attribute.
// math/weight_blocks.h defines the bytes of each format.
//
//   BytesOf(WeightType::kQ4_1, 576) == 360;  FormatOf(WeightType::kQ4_1).numbers == 32
//   ParameterCount(*BuildModel("gpt2-124m", ModelPurpose::kTrain)) == 124439808

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "ir/tensor_type.h"

namespace stowage {

class Graph;  // ir/graph.h

enum class WeightType : uint8_t {
#define STOWAGE_WEIGHT_TYPE(name, numbers, bytes) k##name,
#include "ir/weight_types.def"
};

#define STOWAGE_WEIGHT_TYPE(name, numbers, bytes) +1
inline constexpr int kWeightTypes =
#include "ir/weight_types.def"
    ;

/// The value of the attribute "blocks" if an op's matrix is not quantized.
inline constexpr int64_t kNoBlocks = -1;

struct BlockFormat {
  std::string_view name;  // "Q4_K"
  int64_t numbers = 1;    // per block
  Bytes bytes = 0;        // per block
};
/// Returns the format of `type`. A float is a block of one number.
const BlockFormat& FormatOf(WeightType type);

/// Returns the size of `numbers` numbers in bytes. They must be whole blocks.
Bytes BytesOf(WeightType type, int64_t numbers);

/// Returns the u8 type of a quantized matrix whose decoded shape is `matrix`. Returns nullopt if it
/// is not a matrix or its rows are not whole blocks.
std::optional<TensorType> BytesOfMatrix(WeightType type, const Shape& matrix);

/// Returns the number of numbers in a row of `row_bytes` bytes, or nullopt if the row does not
/// consist of whole blocks.
std::optional<int64_t> NumbersOf(WeightType type, Bytes row_bytes);

/// Returns the number of parameters in all params of `graph`. A quantized matrix counts its decoded
/// elements. Linear in the size of the graph.
int64_t ParameterCount(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_WEIGHT_TYPE_H_
