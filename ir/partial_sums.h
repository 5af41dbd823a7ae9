#ifndef STOWAGE_IR_PARTIAL_SUMS_H_
#define STOWAGE_IR_PARTIAL_SUMS_H_

// Gradients of a norm's params are sums over rows, in two stages: some rows to a partial
// sum, side by side, and then these to one. A node that says into how many parts leaves
// the second stage to a sum_partials, which does it for many norms at once. The parts are
// f32, or f64 for f64; which rows a part adds up is the backend's to say.
//
//   dx, dgamma, dbeta = layer_norm_grad(...)                 dgamma: bf16(n)
//
//   dx, p0, p1 = layer_norm_grad(...) {parts: 512}           p0: f32(512, n)
//   dgamma, dbeta = sum_partials(p0, p1) {dtype: bf16}       dgamma: bf16(n)

#include <cstdint>
#include <optional>

#include "ir/attrs.h"
#include "ir/shape.h"

namespace stowage {

/// The attribute "parts" of a norm's gradient; nothing where it gives the sums themselves.
inline std::optional<int64_t> PartsOf(const Attrs& attrs) {
  if (attrs.Find("parts") == nullptr) return std::nullopt;
  return attrs.Int("parts");
}

// Moments of eight bits (math/moment_codes.h) share a scale by blocks: elements
// kMomentBlock * i and on, in the order in which they lie, have the scale i.
//
//   g.State("w.m", DType::kU8, shape);
//   g.State("w.m_scale", DType::kF32, MomentScales(shape));

/// Elements of a block, as in bitsandbytes: its scales are 1/32 of a byte for each.
inline constexpr int64_t kMomentBlock = 256;

/// How a moment's number is put in eight bits.
enum class MomentCode : uint8_t { kDynamic, kCompanded };

/// The shape of the scales of moments of this shape: one for each block.
inline Shape MomentScales(const Shape& shape) {
  return {(shape.num_elements() + kMomentBlock - 1) / kMomentBlock};
}

// How what ranks split is cut: into flat blocks of one size, one a rank, in order.
//
//   RankBlock(10, /*ranks=*/4, /*granule=*/1);  // 3: blocks of 3, 3, 3 and 1 elements
//   RankBlock(10, 4, 4);                        // 4: blocks of 4, 4, 2 and 0

/// Elements of a rank's block of so many: as many as come to each, rounded up to a
/// multiple of `granule`. Preconditions: all are at least 1; elements + granule is no
/// overflow.
constexpr int64_t RankBlock(int64_t elements, int64_t ranks, int64_t granule) {
  const int64_t each = (elements - 1) / ranks + 1;
  return (each - 1) / granule * granule + granule;
}

}  // namespace stowage

#endif  // STOWAGE_IR_PARTIAL_SUMS_H_
