#ifndef STOWAGE_FORMATS_QUANTIZE_H_
#define STOWAGE_FORMATS_QUANTIZE_H_

// Quantizes floats to the blocks of weights files. This is the inverse of Dequantize
// (formats/gguf.h). All types are supported except Q2_K, Q3_K, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0 and
// MXFP4, which can only be read.
//
//   std::vector<std::byte> row(static_cast<size_t>(BytesOf(WeightType::kQ4_K, 512)));
//   Status done = Quantize(WeightType::kQ4_K, numbers, row);   // 512 floats
//
// The results for F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1 are bit-identical to
// gguf.quants.quantize of ggml's Python package. Q4_K, Q5_K and Q6_K search for scales in a manner
// similar to ggml. For each group of numbers, a few scales near the scale that covers the range of
// the group are tried and refined by a least-squares fit. The scale with the smallest weighted
// squared error is used.

#include <cstddef>
#include <span>

#include "base/result.h"
#include "ir/weight_type.h"

namespace stowage {

/// Returns whether Quantize supports `type`.
bool CanQuantize(WeightType type);

/// Writes `numbers` to `to` as blocks of `type`. Linear. Returns kNotFinite for NaN and infinity,
/// and kInvalidArgument for a finite number that is too large for the type. Errors state the
/// position and the value. Requires `CanQuantize(type)`, that `numbers` are whole blocks, and that
/// `to` has the size of these blocks.
Status Quantize(WeightType type, std::span<const float> numbers,
                std::span<std::byte> to);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_QUANTIZE_H_
