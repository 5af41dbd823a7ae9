#ifndef STOWAGE_AUTODIFF_VJPS_SHAPES_H_
#define STOWAGE_AUTODIFF_VJPS_SHAPES_H_

// Shape work that several rules share: undoing a broadcast or a reduction,
// zeros, and reshapes that emit nothing where nothing changes.

#include "autodiff/vjp.h"
#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage {

/// Zeros of a type, as a broadcast view of one element.
Value Zeros(GraphBuilder& g, const TensorType& type);

/// Removes and returns the gradient of input `i` so far, or zeros that may be overwritten: for
/// rules that add to a few elements of it.
Value AccumulatedOrZeros(VjpContext& v, int i);

/// Reshape, or `x` itself when it has the shape already.
Value ReshapeTo(Value x, const Shape& shape);

/// The sum of `x` over everything a broadcast from `shape` to x's shape
/// repeats: the transpose of BroadcastTo. `x` itself when that is nothing.
Value SumTo(Value x, const Shape& shape);

/// Undoes the shape of a reduction: `reduced` repeated along the reduced axes
/// of `shape`, all of them when `axes` is empty; with or without kept
/// dimensions.
Value Unreduce(Value reduced, const Axes& axes, const Shape& shape);

/// The number of elements of `shape` along `axes`; all when empty.
int64_t CountAlong(const Shape& shape, const Axes& axes);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_VJPS_SHAPES_H_
