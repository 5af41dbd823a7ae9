#ifndef STOWAGE_IR_PADDING_H_
#define STOWAGE_IR_PADDING_H_

// What `pad` puts around a tensor: where each element of its result comes from,
// axis by axis.
//
//   SourceOfPadded({.in = 4, .before = 2}, PadMode::kReflect, 0) == 2

#include <cstdint>

namespace stowage {

/// What padding holds: one number, the elements mirrored at the outermost one, or
/// the outermost one again and again.
enum class PadMode : uint8_t { kConstant = 0, kReflect = 1, kEdge = 2 };

struct PaddedAxis {
  int64_t in = 1;
  int64_t before = 0;
};

/// The element of [0, axis.in) that element i of the result repeats; below 0 where
/// that is the constant.
constexpr int64_t SourceOfPadded(const PaddedAxis& axis, PadMode mode,
                                 int64_t i) {
  const int64_t at = i - axis.before;
  if (at >= 0 && at < axis.in) return at;
  if (mode == PadMode::kConstant) return -1;
  if (mode == PadMode::kEdge) return at < 0 ? 0 : axis.in - 1;
  return at < 0 ? -at : 2 * (axis.in - 1) - at;
}

}  // namespace stowage

#endif  // STOWAGE_IR_PADDING_H_
