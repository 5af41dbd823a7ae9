#ifndef STOWAGE_FORMATS_QUANTIZED_H_
#define STOWAGE_FORMATS_QUANTIZED_H_

// Numbers of a file of weights, whatever its type, as floats.
//
//   std::vector<float> row(576);
//   Dequantize(WeightType::kQ4_1, bytes, row);   // bytes: 18 blocks of 20 bytes
//
// The types are in ir/weight_type.h, what their blocks say in math/weight_blocks.h.

#include <cstddef>
#include <span>

#include "ir/weight_type.h"

namespace stowage {

/// The numbers of whole blocks as floats. Every one is the float nearest to what the
/// block says. Precondition: `bytes` are those of as many numbers as `to` has.
void Dequantize(WeightType type, std::span<const std::byte> bytes,
                std::span<float> to);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_QUANTIZED_H_
