#ifndef STOWAGE_CPU_KERNELS_OPTIMIZER_UPDATES_H_
#define STOWAGE_CPU_KERNELS_OPTIMIZER_UPDATES_H_

// Encodes many numbers in a dynamic 8-bit code of optimizer moments (math/optimizer.h). The bytes
// are equal to the results of Code::Encode, but the loop has no branches, so compilers vectorize
// it.
//
//   EncodeDynamic<math::DynamicCode>(v, count, math::InverseOf(scale), codes);
//
// The code is monotonic, so each code covers an interval of floats. A table, indexed by the
// exponent and the first six mantissa bits of a float, has the code of the smallest float with
// these bits. At most two codes end among the floats of one table entry, so two comparisons find
// the code.

#include <cstdint>

namespace stowage::cpu {

/// Sets codes[i] = Code::Encode(numbers[i] * inverse) for i < count. Code is
/// math::SignedDynamicCode or math::DynamicCode. The arrays must not overlap.
template <typename Code>
void EncodeDynamic(const float* numbers, int64_t count, float inverse,
                   uint8_t* codes);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_OPTIMIZER_UPDATES_H_
