#ifndef STOWAGE_IR_WEIGHT_TYPE_H_
#define STOWAGE_IR_WEIGHT_TYPE_H_

// Describes the number formats of weight files: f32, f16, bf16, and the quantized block formats of
// GGUF, in which neighboring numbers share a scale. A row of a matrix consists of whole blocks, so
// rows can be read and copied without decoding.
//
// In a graph, a quantized matrix is a u8 param with shape (rows, bytes per row). The ops that read
// it (quantized_matmul, quantized_gather, linear_cross_entropy) have its format as an attribute.
// math/weight_blocks.h defines the bytes of each format.
//
//   BytesOf(WeightType::kQ4_1, 576) == 360;  FormatOf(WeightType::kQ4_1).numbers == 32
//   ParameterCount(*BuildModel("gpt2-124m", ModelPurpose::kTrain)) == 124439808  // nn/

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

/// The value of an op's attribute "blocks" if the op's matrix is not quantized. Other values are
/// WeightTypes.
inline constexpr int64_t kNoBlocks = -1;

struct BlockFormat {
  std::string_view name;  // "Q4_K"
  int64_t numbers = 1;    // per block
  Bytes bytes = 0;        // per block
};
/// Returns the format of `type`. For floats, a block is one number.
const BlockFormat& FormatOf(WeightType type);

/// Returns the size of `numbers` numbers in bytes. `numbers` must be a multiple of the numbers per
/// block.
Bytes BytesOf(WeightType type, int64_t numbers);

/// Returns the type of a quantized matrix with the decoded shape `matrix`: u8(rows, bytes per row).
/// Returns nullopt if `matrix` does not have two dimensions or its rows are not whole blocks.
std::optional<TensorType> BytesOfMatrix(WeightType type, const Shape& matrix);

/// Returns the number of numbers in a row of `row_bytes` bytes, or nullopt if the row does not
/// consist of whole blocks.
std::optional<int64_t> NumbersOf(WeightType type, Bytes row_bytes);

/// Returns the number of elements of all params of `graph`. For a quantized matrix, decoded
/// elements are counted, provided that an op outside of bodies (ir/bodies.h) reads the matrix.
/// Linear in the size of the graph.
int64_t ParameterCount(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_WEIGHT_TYPE_H_
