#ifndef STOWAGE_CPU_KERNELS_OPTIMIZER_UPDATES_H_
#define STOWAGE_CPU_KERNELS_OPTIMIZER_UPDATES_H_

// The dynamic code of 8-bit moments (math/optimizer.h) for many numbers: the same bytes as
// Encode of each, without branches, so that compilers vectorize it.
//
//   EncodeDynamic<math::DynamicCode>(v, count, 1 / scale, codes);
//
// The code is monotonic: each code is nearest to an interval of floats that ends at a last
// one. A table by the float's exponent and the first six bits of its mantissa gives the
// code where the table's interval begins; an interval contains at most two last floats, so
// two comparisons find the code.

#include <cstdint>

namespace stowage::cpu {

/// codes[i] = Code::Encode(numbers[i] * inverse) for i < count. Code is
/// math::SignedDynamicCode or math::DynamicCode; the arrays do not overlap.
template <typename Code>
void EncodeDynamic(const float* numbers, int64_t count, float inverse,
                   uint8_t* codes);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_OPTIMIZER_UPDATES_H_
