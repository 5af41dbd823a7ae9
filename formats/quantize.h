#ifndef STOWAGE_FORMATS_QUANTIZE_H_
#define STOWAGE_FORMATS_QUANTIZE_H_

// Floats as numbers of a file of weights: the opposite of Dequantize (formats/gguf.h), for
// all types but Q2_K, Q3_K, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0 and MXFP4, which are only read.
//
//   std::vector<std::byte> row(static_cast<size_t>(BytesOf(WeightType::kQ4_K, 512)));
//   Status done = Quantize(WeightType::kQ4_K, numbers, row);   // 512 floats
//
// F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1 have the bits that gguf.quants.quantize of
// ggml's Python package gives. Q4_K, Q5_K and Q6_K search for scales as ggml does: each
// group of numbers takes, of a few steps around the one that covers its range, the one of
// the smallest weighted squared error after a least-squares fit.

#include <cstddef>
#include <span>

#include "base/result.h"
#include "ir/weight_type.h"

namespace stowage {

/// Whether Quantize writes blocks of the type.
bool CanQuantize(WeightType type);

/// Writes whole blocks of `type`. Linear. Errors, with the position of a number and its
/// value: kNotFinite for NaN and infinity; kInvalidArgument for a finite number that is too
/// large for the type, whose scales are f16. Preconditions: CanQuantize(type), and `to` has the
/// bytes of as many numbers.
Status Quantize(WeightType type, std::span<const float> numbers,
                std::span<std::byte> to);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_QUANTIZE_H_
