#ifndef STOWAGE_AUTODIFF_VJPS_SHAPES_H_
#define STOWAGE_AUTODIFF_VJPS_SHAPES_H_

// Provides shape helpers for VJP rules, such as the transposes of broadcasts and reductions.

#include "autodiff/vjp.h"
#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage {

/// Returns zeros of type `type`, as a broadcast view of a single element.
Value Zeros(GraphBuilder& g, const TensorType& type);

/// Removes and returns the gradient of input `i` so far, or returns zeros if there is none. The
/// result may be overwritten by rules that add to a few of its elements.
Value AccumulatedOrZeros(VjpContext& v, int i);

/// Returns `x` reshaped to `shape`, or `x` itself if it already has that shape.
Value ReshapeTo(Value x, const Shape& shape);

/// Returns the sum of `x` over the axes along which a broadcast from `shape` to x's shape repeats
/// elements. This is the transpose of BroadcastTo. Returns `x` itself if there are none.
Value SumTo(Value x, const Shape& shape);

/// Returns `reduced`, the result of a reduction of `shape` over `axes`, broadcast back to `shape`.
/// If `axes` is empty, all axes have been reduced. `reduced` may or may not have kept the reduced
/// dimensions.
Value Unreduce(Value reduced, const Axes& axes, const Shape& shape);

/// Returns the number of elements of `shape` along `axes`, or along all axes if `axes` is empty.
int64_t CountAlong(const Shape& shape, const Axes& axes);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_VJPS_SHAPES_H_
