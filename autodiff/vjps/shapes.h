#ifndef STOWAGE_AUTODIFF_VJPS_SHAPES_H_
#define STOWAGE_AUTODIFF_VJPS_SHAPES_H_

// Provides shape helpers for VJP rules, such as the transposes of broadcasts and reductions.

#include "autodiff/vjp.h"
#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage {

/// Returns zeros of type `type`, as a broadcast view of a single element.
Value Zeros(GraphBuilder& g, const TensorType& type);

/// Removes and returns the gradient of input `i` so far, or returns new zeros if there is none. A
/// rule that adds to only a few elements may overwrite the result.
Value AccumulatedOrZeros(VjpContext& v, int i);

/// Returns `x` reshaped to `shape`, or `x` itself if it already has that shape.
Value ReshapeTo(Value x, const Shape& shape);

/// Returns `x` summed to `shape`, over the axes along which BroadcastTo from `shape` to x's shape
/// repeats elements. This is the transpose of BroadcastTo. Returns `x` itself if there are no such
/// axes.
Value SumTo(Value x, const Shape& shape);

/// Returns `reduced`, the result of reducing a tensor with `shape` over `axes`, broadcast back to
/// `shape`. If `axes` is empty, all axes have been reduced. `reduced` may have the reduced
/// dimensions, with size 1, or not.
Value Unreduce(Value reduced, const Axes& axes, const Shape& shape);

/// Returns the number of elements of `shape` along `axes`, or along all axes if `axes` is empty.
int64_t CountAlong(const Shape& shape, const Axes& axes);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_VJPS_SHAPES_H_
