#ifndef STOWAGE_FORMATS_QUANTIZE_K_H_
#define STOWAGE_FORMATS_QUANTIZE_K_H_

// Blocks of the K types, 256 numbers each, from floats: scales of groups, which are six or
// eight bits themselves, times a scale of the block (math/weight_blocks.h has the layout).
//
//   uint8_t block[144];
//   bool fits = quantize::AffineGroups(numbers, /*most=*/15, block);   // Q4_K

#include <cstdint>

namespace stowage::quantize {

/// A block of Q4_K, where `most`, the largest code, is 15, or of Q5_K, where it is 31. False
/// where a scale is too large for f16. Precondition: the numbers are finite.
bool AffineGroups(const float* numbers, int most, uint8_t* block);

/// A block of Q6_K; likewise.
bool SymmetricGroups(const float* numbers, uint8_t* block);

}  // namespace stowage::quantize

#endif  // STOWAGE_FORMATS_QUANTIZE_K_H_
