#ifndef STOWAGE_IR_ELEMENT_GROUPS_H_
#define STOWAGE_IR_ELEMENT_GROUPS_H_

// Groups of a tensor's elements on which an op's shape rule and its kernels of every
// backend agree: lines along an axis, groups of reduced axes, partial sums over rows, blocks
// that share the scale of an 8-bit moment, and the blocks of ranks.
//
//   AxisLines::Along({2, 3, 4, 5}, 1);              // outer 2, length 3, inner 20
//
//   AxisGroups groups({8, 3, 4, 5}, axes);      // axes: 1, 2
//   groups.simple();                            // (8, 12, 5)
//   groups.outer();  groups.reduced();  groups.inner();
//
//   MomentScales({2, 300}) == Shape{3};
//
//   RankBlock(10, /*ranks=*/4, /*granule=*/1);  // 3: blocks of 3, 3, 3 and 1 elements
//   RankBlock(10, 4, 4);                        // 4: blocks of 4, 4, 2 and 0

#include <cstdint>
#include <optional>
#include <span>

#include "ir/attrs.h"
#include "ir/tensor_type.h"

namespace stowage {

/// A contiguous tensor seen along one axis: lines of `length` elements, `inner` apart.
/// Element i of line (o, c) is element (o * length + i) * inner + c.
struct AxisLines {
  int64_t outer = 1, length = 1, inner = 1;

  /// Precondition: axis in [0, shape.rank()).
  static AxisLines Along(const Shape& shape, int64_t axis) {
    AxisLines lines;
    for (int i = 0; i < shape.rank(); ++i) {
      (i < axis    ? lines.outer
       : i == axis ? lines.length
                   : lines.inner) *= shape[i];
    }
    return lines;
  }
};

/// The axes of a contiguous operand of a reduction, merged: neighbours that are all reduced
/// or all kept become one group, so that groups alternate between the two. Axes of size 1
/// are in no group. Most reductions then have the form (outer, reduced, inner) whatever the
/// rank: rows where `inner` is 1, columns elsewhere. Reductions that alternate more often
/// are not simple and use the sizes and strides of the groups.
struct AxisGroups {
  /// Reduced axes outside the shape are ignored.
  AxisGroups(const Shape& shape, std::span<const int64_t> reduced_axes);
  /// With all axes reduced.
  static AxisGroups AllReduced(const Shape& shape);

  /// Whether the operand is (outer, reduced, inner).
  bool simple() const { return reduced_dims.rank() <= 1; }
  /// Elements that are reduced to one result; results.
  int64_t reduced() const { return reduced_dims.num_elements(); }
  int64_t kept() const { return kept_dims.num_elements(); }
  /// Adjacent results: the size of the last group if it is kept, else 1.
  int64_t inner() const {
    if (inner_is_reduced || reduced_dims.rank() == 0) return 1;
    return kept_dims.back();
  }
  int64_t outer() const { return kept() / inner(); }

  Shape reduced_dims, kept_dims;  // sizes of groups
  Strides reduced_strides, kept_strides;
  bool inner_is_reduced = true;  // or there is no group
};

/// The attribute "parts" of a norm's gradient op; nothing if it is absent.
///
/// Gradients of a norm's params are sums over rows. With "parts" the op returns that many
/// partial sums, f32 (f64 for f64), and a sum_partials adds them, for many norms at once.
/// The backend decides which rows a part adds.
///
///   dx, dgamma, dbeta = layer_norm_grad(...)                 dgamma: bf16(n)
///
///   dx, p0, p1 = layer_norm_grad(...) {parts: 512}           p0: f32(512, n)
///   dgamma, dbeta = sum_partials(p0, p1) {dtype: bf16}       dgamma: bf16(n)
inline std::optional<int64_t> PartsOf(const Attrs& attrs) {
  if (attrs.Find("parts") == nullptr) return std::nullopt;
  return attrs.Int("parts");
}

/// Elements of an 8-bit moment (math/optimizer.h) that share a scale: elements
/// kMomentBlock * i and on have scale i. The size is that of bitsandbytes.
inline constexpr int64_t kMomentBlock = 256;

/// The 8-bit code of a moment's elements.
enum class MomentCode : uint8_t { kDynamic, kCompanded };

/// The shape of the scales of moments of this shape: one per block.
inline Shape MomentScales(const Shape& shape) {
  return {(shape.num_elements() + kMomentBlock - 1) / kMomentBlock};
}

/// Elements of each rank's block where `ranks` split a tensor into flat blocks of one size,
/// in order: elements / ranks rounded up, then rounded up to a multiple of `granule`.
/// Preconditions: all are at least 1; elements + granule does not overflow.
constexpr int64_t RankBlock(int64_t elements, int64_t ranks, int64_t granule) {
  const int64_t each = (elements - 1) / ranks + 1;
  return (each - 1) / granule * granule + granule;
}

}  // namespace stowage

#endif  // STOWAGE_IR_ELEMENT_GROUPS_H_
