#ifndef STOWAGE_IR_ELEMENT_GROUPS_H_
#define STOWAGE_IR_ELEMENT_GROUPS_H_

// Defines how ops divide a tensor's elements into groups, for shape rules and for the kernels of
// all backends: lines along an axis, merged axes of a reduction, partial sums over rows, blocks
// that share the scale of an 8-bit moment, and blocks that are assigned to ranks.
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

/// The lines of a contiguous tensor along one axis. A line has `length` elements with stride
/// `inner`. Element i of line (o, c) is element (o * length + i) * inner + c of the tensor.
struct AxisLines {
  int64_t outer = 1, length = 1, inner = 1;

  /// Requires `0 <= axis && axis < shape.rank()`.
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

/// The merged axes of a contiguous operand of a reduction. Adjacent axes that are all reduced or
/// all kept are merged into one group, so reduced and kept groups alternate. Axes of size 1 are
/// omitted. Most reductions then have the simple form (outer, reduced, inner), whatever their rank.
/// A simple reduction reduces rows if `inner` is 1, and columns otherwise. For all other
/// reductions, kernels use the sizes and strides of the groups.
struct AxisGroups {
  /// Merges the axes of `shape`. Ignores entries of `reduced_axes` that are not axes of `shape`.
  AxisGroups(const Shape& shape, std::span<const int64_t> reduced_axes);
  /// Returns the groups of a reduction over all axes.
  static AxisGroups AllReduced(const Shape& shape);

  /// Returns whether the operand has the form (outer, reduced, inner).
  bool simple() const { return reduced_dims.rank() <= 1; }
  /// Returns the number of elements that are reduced to one result.
  int64_t reduced() const { return reduced_dims.num_elements(); }
  /// Returns the number of results.
  int64_t kept() const { return kept_dims.num_elements(); }
  /// Returns the size of the last group if that group is kept and another group is reduced.
  /// Otherwise returns 1.
  int64_t inner() const {
    if (inner_is_reduced || reduced_dims.rank() == 0) return 1;
    return kept_dims.back();
  }
  int64_t outer() const { return kept() / inner(); }

  Shape reduced_dims, kept_dims;  // sizes of the groups
  Strides reduced_strides, kept_strides;
  bool inner_is_reduced = true;  // also true if no group exists
};

/// Returns the attribute "parts" of a norm's gradient op, or nullopt if it is absent.
///
/// The gradients of a norm's params are sums over rows. If the attribute is present, the op instead
/// returns this number of partial sums, in f32 (f64 if the params are f64). One sum_partials node
/// then adds the partial sums of many norms. The backend decides which rows each partial sum
/// contains.
///
///   dx, dgamma, dbeta = layer_norm_grad(...)                 dgamma: bf16(n)
///
///   dx, p0, p1 = layer_norm_grad(...) {parts: 512}           p0: f32(512, n)
///   dgamma, dbeta = sum_partials(p0, p1) {dtype: bf16}       dgamma: bf16(n)
inline std::optional<int64_t> PartsOf(const Attrs& attrs) {
  if (attrs.Find("parts") == nullptr) return std::nullopt;
  return attrs.Int("parts");
}

/// The number of consecutive elements of an 8-bit moment (math/optimizer.h) that share a scale.
/// Element i uses the scale with index i / kMomentBlock. bitsandbytes has the same block size.
inline constexpr int64_t kMomentBlock = 256;

/// The code in which the elements of an 8-bit moment are stored (math/optimizer.h).
enum class MomentCode : uint8_t { kDynamic, kCompanded };

/// Returns the shape of the scales of a moment with `shape`, one scale per block.
inline Shape MomentScales(const Shape& shape) {
  return {(shape.num_elements() + kMomentBlock - 1) / kMomentBlock};
}

/// Returns the block size when `elements` elements of a flat tensor are split into `ranks`
/// consecutive blocks of equal size. The size is ceil(elements / ranks), rounded up to a multiple
/// of `granule`, so the last blocks may be partly or wholly past the end. All arguments must be at
/// least 1, and elements + granule must not overflow.
constexpr int64_t RankBlock(int64_t elements, int64_t ranks, int64_t granule) {
  const int64_t each = (elements - 1) / ranks + 1;
  return (each - 1) / granule * granule + granule;
}

}  // namespace stowage

#endif  // STOWAGE_IR_ELEMENT_GROUPS_H_
