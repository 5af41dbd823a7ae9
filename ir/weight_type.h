#ifndef STOWAGE_IR_WEIGHT_TYPE_H_
#define STOWAGE_IR_WEIGHT_TYPE_H_

// The types in which files of weights hold numbers: floats of 32 and 16 bits, and the
// block formats of GGUF, where neighbouring numbers share a scale. A row of a matrix is
// whole blocks, so that rows can be read and moved without looking at a number.
//
// In a graph, such a matrix is a param of u8, (rows, bytes of a row), and the ops that
// read it (quantized_matmul, quantized_gather, linear_cross_entropy) have its type as an
// attribute. How the bytes lie is said in math/weight_blocks.h.
//
//   BytesOf(WeightType::kQ4_1, 576) == 360;  FormatOf(WeightType::kQ4_1).numbers == 32

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "ir/shape.h"

namespace stowage {

enum class WeightType : uint8_t {
#define STOWAGE_WEIGHT_TYPE(name, numbers, bytes) k##name,
#include "ir/weight_types.def"
};

#define STOWAGE_WEIGHT_TYPE(name, numbers, bytes) +1
inline constexpr int kWeightTypes =
#include "ir/weight_types.def"
    ;

/// What the attribute "blocks" of an op is, in place of a type, where its matrix is of
/// floats.
inline constexpr int64_t kNoBlocks = -1;

struct BlockFormat {
  std::string_view name;  // "Q4_K"
  int64_t numbers = 1;    // of a block
  Bytes bytes = 0;        // likewise
};
/// How numbers of that type lie; a float is a block of one number.
const BlockFormat& FormatOf(WeightType type);

/// Bytes of so many numbers. Precondition: they are whole blocks.
Bytes BytesOf(WeightType type, int64_t numbers);

/// A matrix as the bytes of its rows. Absent where a row is not whole blocks.
std::optional<TensorType> BytesOfMatrix(WeightType type, const Shape& matrix);

/// Numbers of a row of so many bytes; absent where these are not whole blocks.
std::optional<int64_t> NumbersOf(WeightType type, Bytes row_bytes);

}  // namespace stowage

#endif  // STOWAGE_IR_WEIGHT_TYPE_H_
