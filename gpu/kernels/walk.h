#ifndef STOWAGE_GPU_KERNELS_WALK_H_
#define STOWAGE_GPU_KERNELS_WALK_H_

// Computes the offsets of strided operands in elementwise kernels, and copies strided tensors.
//
// The host merges adjacent dimensions if the outer one continues the inner one in every operand.
// Contiguous operands thus become one axis, and a bias that is added to rows becomes two. The host
// then divides the loop into segments whose offsets fit in 32 bits. There is nearly always only
// one. On the device, a unit of work is an element or a pack of elements. The offset of a unit in
// every operand is computed from its index, with one division per axis, except for the last axis.
//
//   const auto loop = MergeAxes<3>(shape, {&y.strides, &a.strides, &b.strides});
//   ForEachPiece(loop, [&](const StridedLoop<3>& piece, const auto& first) {
//     // In the segment, operand k starts first[k] elements after its first element.
//     params.walk = Walk<3>::Over(piece, 1);
//   });
//
//   int32_t offsets[2][3];
//   p.walk.Locate({unit, other}, offsets);

#include <array>
#include <cstdint>

#include "gpu/queue.h"
#include "ir/tensor_type.h"
#include "math/portable.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

/// Computes x / d with a multiplication (Granlund & Montgomery 1994, figure 4.1), for
/// `x < 2^31`.
struct Divisor {
  uint32_t d = 1;
  uint32_t multiplier = 1;
  uint32_t shift = 0;

  /// Requires `d` in [1, 2^31).
  static Divisor Of(uint32_t d) {
    uint32_t shift = 0;
    while ((uint64_t{1} << shift) < d) ++shift;
    const uint64_t excess = (uint64_t{1} << shift) - d;
    return {d, static_cast<uint32_t>((excess << 32) / d + 1), shift};
  }
  STOWAGE_HOST_DEVICE uint32_t Divide(uint32_t x) const {
    const uint64_t product = uint64_t{x} * multiplier;
    return (static_cast<uint32_t>(product >> 32) + x) >> shift;
  }
};

/// The dimensions of a loop and the strides of its operands in elements, innermost axis first. The
/// loop has at least one axis. Operand 0 is the result.
template <int kOperands>
struct StridedLoop {
  static constexpr size_t kCount = static_cast<size_t>(kOperands);

  int rank = 0;
  int64_t dims[kMaxRank] = {};
  int64_t steps[kMaxRank][kOperands] = {};

  int64_t elements() const {
    int64_t product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= dims[axis];
    return product;
  }
};

/// Returns the loop over `shape`, for operands with these strides. Adjacent axes are merged if the
/// outer one continues the inner one in every operand.
template <int kOperands>
StridedLoop<kOperands> MergeAxes(
    const Shape& shape,
    const std::array<const Strides*, static_cast<size_t>(kOperands)>& strides) {
  StridedLoop<kOperands> loop;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    const int last = loop.rank - 1;
    bool continues = loop.rank > 0;
    for (int k = 0; k < kOperands; ++k) {
      const int64_t step = (*strides[static_cast<size_t>(k)])[axis];
      continues = continues && step == loop.steps[last][k] * loop.dims[last];
      loop.steps[loop.rank][k] = step;
    }
    if (continues) {
      loop.dims[last] *= shape[axis];
    } else {
      loop.dims[loop.rank++] = shape[axis];
    }
  }
  if (loop.rank == 0) {  // the shape has a single element
    loop.rank = 1;
    loop.dims[0] = 1;
    for (int k = 0; k < kOperands; ++k) loop.steps[0][k] = 1;
  }
  return loop;
}

/// The exclusive upper bound of offsets and element indices in a segment.
inline constexpr int64_t kMaxReach = int64_t{1} << 31;

/// Calls `f(segment, first)` for segments that cover the loop. All offsets in a segment are below
/// kMaxReach. `first` has the offset of the segment in each operand.
template <int kOperands, typename F>
void ForEachPiece(
    const StridedLoop<kOperands>& loop, const F& f,
    const std::array<int64_t, static_cast<size_t>(kOperands)>& first = {}) {
  int64_t reach = loop.elements();
  int widest = 0;
  int64_t width = 0;
  for (int k = 0; k < kOperands; ++k) {
    int64_t extent = 1;
    for (int axis = 0; axis < loop.rank; ++axis) {
      const int64_t along = (loop.dims[axis] - 1) * loop.steps[axis][k];
      extent += along;
      if (along > width) {
        width = along;
        widest = axis;
      }
    }
    reach = reach > extent ? reach : extent;
  }
  if (reach < kMaxReach) {
    f(loop, first);
    return;
  }
  // The first half is a multiple of 16 elements, a whole number of packs, if the dimension has
  // more than 32 elements.
  StridedLoop<kOperands> half = loop;
  const int64_t dim = loop.dims[widest];
  half.dims[widest] = dim > 32 ? dim / 32 * 16 : dim / 2;
  ForEachPiece(half, f, first);
  auto second = first;
  for (int k = 0; k < kOperands; ++k) {
    second[static_cast<size_t>(k)] += half.dims[widest] * loop.steps[widest][k];
  }
  half.dims[widest] = dim - half.dims[widest];
  ForEachPiece(half, f, second);
}

/// A loop in device code. Its units are single elements, or several adjacent elements along the
/// innermost axis.
template <int kOperands>
struct Walk {
  int32_t rank = 1;
  Divisor dims[kMaxRank];  // in units, and unset for the last axis
  int32_t steps[kMaxRank][kOperands] = {};  // in elements

  /// Returns the walk over `loop` with `width` elements per unit. If the rank is above 1, `width`
  /// must divide `loop.dims[0]`. `loop` must be a segment from ForEachPiece.
  static Walk Over(const StridedLoop<kOperands>& loop, int width) {
    Walk walk;
    walk.rank = loop.rank;
    for (int axis = 0; axis < loop.rank; ++axis) {
      const int64_t unit = axis == 0 ? width : 1;
      if (axis + 1 < loop.rank) {
        walk.dims[axis] =
            Divisor::Of(static_cast<uint32_t>(loop.dims[axis] / unit));
      }
      for (int k = 0; k < kOperands; ++k) {
        // The step of an axis with one element is arbitrary and never used.
        walk.steps[axis][k] = static_cast<int32_t>(loop.steps[axis][k] * unit);
      }
    }
    return walk;
  }

  /// Computes the offset of each unit `units[i]` in every operand, in elements.
  template <int n>
  STOWAGE_HOST_DEVICE void Locate(const uint32_t (&units)[n],
                                  int32_t (&offsets)[n][kOperands]) const {
    uint32_t rest[n];
    for (int i = 0; i < n; ++i) {
      rest[i] = units[i];
      for (int k = 0; k < kOperands; ++k) offsets[i][k] = 0;
    }
    for (int axis = 0; axis + 1 < rank; ++axis) {
      const Divisor dim = dims[axis];
      for (int i = 0; i < n; ++i) {
        const uint32_t above = dim.Divide(rest[i]);
        const auto place = static_cast<int32_t>(rest[i] - above * dim.d);
        for (int k = 0; k < kOperands; ++k) {
          offsets[i][k] += place * steps[axis][k];
        }
        rest[i] = above;
      }
    }
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < kOperands; ++k) {
        offsets[i][k] += static_cast<int32_t>(rest[i]) * steps[rank - 1][k];
      }
    }
  }
};

/// Enqueues the copy y = x. Both must have the same shape and element type, and may have any
/// strides. `y` may be `x` if both are contiguous. Otherwise they must not overlap. `name` must be
/// a string literal, which errors and profiles show.
void CopyStrided(const char* name, Queue& queue, const TensorView& y,
                 const TensorView& x);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_WALK_H_
