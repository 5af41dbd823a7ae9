#ifndef STOWAGE_IR_MOMENT_BLOCKS_H_
#define STOWAGE_IR_MOMENT_BLOCKS_H_

// Moments of eight bits (math/moment_codes.h) share a scale by blocks: elements
// kMomentBlock * i and on, in the order in which they lie, have the scale i.
//
//   g.State("w.m", DType::kU8, shape);
//   g.State("w.m_scale", DType::kF32, MomentScales(shape));

#include <cstdint>

#include "ir/shape.h"

namespace stowage {

/// Elements of a block, as in bitsandbytes: its scales are 1/32 of a byte for each.
inline constexpr int64_t kMomentBlock = 256;

/// How a moment's number is put in eight bits.
enum class MomentCode : uint8_t { kDynamic, kCompanded };

/// The shape of the scales of moments of this shape: one for each block.
inline Shape MomentScales(const Shape& shape) {
  return {(shape.num_elements() + kMomentBlock - 1) / kMomentBlock};
}

}  // namespace stowage

#endif  // STOWAGE_IR_MOMENT_BLOCKS_H_
