#ifndef STOWAGE_ONNX_SHAPES_H_
#define STOWAGE_ONNX_SHAPES_H_

// Computes the result shapes and the indices of nodes that rearrange or generate elements, such as
// the shape after a Reshape and the elements of a Slice. Conversions and constant folding
// (onnx/fold.h) use these functions. Errors name the node. The functions that take only a node
// return kInvalidArgument if its operands or attributes are invalid, and kUnsupported if the step
// computes an operand that specifies a shape or an index.
//
//   STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAfterReshape(node));

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "ir/tensor_type.h"
#include "onnx/node.h"

namespace stowage::onnx {

/// Returns `dims` as a shape. A dimension may be 0. Returns kUnsupported for more than kMaxRank
/// dimensions. Returns kInvalidArgument for a negative dimension and for too many elements.
Result<Shape> ShapeOfDims(const ImportedNode& node,
                          std::span<const int64_t> dims);

/// Returns the shape to which `a` and `b` broadcast according to NumPy's rules, or kInvalidArgument
/// if there is none.
Result<Shape> Broadcast(const ImportedNode& node, const Shape& a,
                        const Shape& b);

/// Each of these functions returns the shape of the node's result.
Result<Shape> ShapeAfterReshape(ImportedNode& node);
Result<Shape> ShapeAfterSqueeze(ImportedNode& node);
Result<Shape> ShapeAfterUnsqueeze(ImportedNode& node);
Result<Shape> ShapeAfterExpand(ImportedNode& node);

/// The result of a ConstantOfShape node. All elements are equal to `value`, which has one element.
struct FilledShape {
  Shape shape;
  Array value;
};
Result<FilledShape> FilledShapeOf(ImportedNode& node);

/// Returns the permutation of a Transpose node, which reverses the axes by default.
Result<std::vector<int64_t>> OrderOf(ImportedNode& node);

/// The `count` elements start, start + step, ... of an axis. `step` may be negative, and `count`
/// may be 0.
struct SliceOfAxis {
  int axis = 0;
  int64_t start = 0, step = 1, count = 0;
};
/// Returns the elements that a Slice node selects, for each axis that it slices.
Result<std::vector<SliceOfAxis>> SlicesOf(ImportedNode& node);

/// The result of a Range node, which is the `count` numbers start, start + step, ...
struct RangeOfNumbers {
  double start = 0, step = 1;
  int64_t count = 0;
};
Result<RangeOfNumbers> RangeOf(ImportedNode& node);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_SHAPES_H_
