#ifndef STOWAGE_ONNX_OPS_COMMON_H_
#define STOWAGE_ONNX_OPS_COMMON_H_

// Small values that several conversions make.
//
//   Value reversed = TakeAlong(x, axis, size - 1, -1, size);

#include <cstdint>
#include <vector>

#include "ir/builder.h"
#include "onnx/node.h"

namespace stowage::onnx {

/// A scalar of x's element type; inert where x is.
Value Like(Value x, double number);

/// Whole numbers as a constant vector of i64.
Value ConstantInts(GraphBuilder& g, const std::vector<int64_t>& ints);

/// x's elements along `axis` from `start` on, each `step` after the one before: `count`
/// of them, in an order that a slice does not have.
Value TakeAlong(Value x, int axis, int64_t start, int64_t step, int64_t count);

/// x's elements at those places along `axis`, in their order.
Value TakeAt(Value x, int axis, const std::vector<int64_t>& places);

/// What a node's random draws are of: inputs "seed" and "step" of the model, which the
/// first that asks declares, and a number of its own.
struct Draws {
  Value seed, step;
  int64_t id = 0;
};
Draws NextDraws(ImportedNode& node);

/// v, one number a channel, as a tensor that broadcasts along dimension 1 of one of
/// `rank` dimensions.
Value PerChannel(Value v, int rank);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_OPS_COMMON_H_
