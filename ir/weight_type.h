#ifndef STOWAGE_IR_WEIGHT_TYPE_H_
#define STOWAGE_IR_WEIGHT_TYPE_H_

// The number formats of weight files: floats of 32 and 16 bits, and the block formats of
// GGUF, where neighbouring numbers share a scale. A row of a matrix is a whole number of
// blocks, so that rows can be read and moved without decoding.
//
// In a graph, a matrix in blocks is a param of u8, (rows, bytes of a row), and the ops that
// read it (quantized_matmul, quantized_gather, linear_cross_entropy) have its format as an
// attribute. math/weight_blocks.h defines the bytes of each format.
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

/// The attribute "blocks" of an op whose matrix is of floats.
inline constexpr int64_t kNoBlocks = -1;

struct BlockFormat {
  std::string_view name;  // "Q4_K"
  int64_t numbers = 1;    // per block
  Bytes bytes = 0;        // per block
};
/// The format of a type; a float is a block of one number.
const BlockFormat& FormatOf(WeightType type);

/// Bytes of `numbers` numbers. Precondition: they are whole blocks.
Bytes BytesOf(WeightType type, int64_t numbers);

/// The u8 type of a matrix in blocks; nothing if its rows are not whole blocks.
std::optional<TensorType> BytesOfMatrix(WeightType type, const Shape& matrix);

/// Numbers in a row of `row_bytes` bytes; nothing if these are not whole blocks.
std::optional<int64_t> NumbersOf(WeightType type, Bytes row_bytes);

/// Elements of all params of `graph`; for a matrix in blocks, the numbers that they hold.
/// Linear.
int64_t ParameterCount(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_WEIGHT_TYPE_H_
