#ifndef STOWAGE_CPU_KERNELS_DYNAMIC_CODES_H_
#define STOWAGE_CPU_KERNELS_DYNAMIC_CODES_H_

// Bytes of the dynamic code (math/optimizer.h) for many numbers: the same as that
// code's, one by one, but without branches, so that compilers make vectors of it.
//
// The code rises with its argument, so that each of its numbers is nearest to all floats
// up to a last one. A float's exponent and the first six bits of its mantissa say which
// number is nearest to where these floats begin; of last ones, at most two lie among
// them, and two comparisons do the rest.
//
//   EncodeDynamic<math::DynamicCode>(v, count, 1 / scale, codes);

#include <cstdint>

namespace stowage::cpu {

/// codes[i] = Code::Encode(numbers[i] * inverse), i < count; of math::SignedDynamicCode
/// and math::DynamicCode. The two do not overlap.
template <typename Code>
void EncodeDynamic(const float* numbers, int64_t count, float inverse,
                   uint8_t* codes);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_DYNAMIC_CODES_H_
