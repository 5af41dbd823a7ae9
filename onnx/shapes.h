#ifndef STOWAGE_ONNX_SHAPES_H_
#define STOWAGE_ONNX_SHAPES_H_

// Computes the shapes and indices of nodes that move elements, such as the shape after a Reshape
// and the elements of a Slice. Conversions and constant folding (onnx/fold.h) use these functions.
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

/// Returns dimensions as a shape. A dimension may be 0. Returns an error for a negative dimension,
/// too many dimensions, and more than 2^63 - 1 elements.
Result<Shape> ShapeOfDims(const ImportedNode& node,
                          std::span<const int64_t> dims);

/// Returns the shape to which both broadcast according to NumPy's rules, or an error if none
/// exists.
Result<Shape> Broadcast(const ImportedNode& node, const Shape& a,
                        const Shape& b);

Result<Shape> ShapeAfterReshape(ImportedNode& node);
Result<Shape> ShapeAfterSqueeze(ImportedNode& node);
Result<Shape> ShapeAfterUnsqueeze(ImportedNode& node);
Result<Shape> ShapeAfterExpand(ImportedNode& node);

/// The result of a ConstantOfShape node: its shape and its value, a scalar.
struct FilledShape {
  Shape shape;
  Array value;
};
Result<FilledShape> FilledShapeOf(ImportedNode& node);

/// Returns the permutation of axes of a Transpose node.
Result<std::vector<int64_t>> OrderOf(ImportedNode& node);

/// The elements start, start + step, ... of an axis. The step may be negative, and the count may be
/// 0.
struct SliceOfAxis {
  int axis = 0;
  int64_t start = 0, step = 1, count = 0;
};
Result<std::vector<SliceOfAxis>> SlicesOf(ImportedNode& node);

/// The result of a Range node: start, start + step, ...
struct RangeOfNumbers {
  double start = 0, step = 1;
  int64_t count = 0;
};
Result<RangeOfNumbers> RangeOf(ImportedNode& node);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_SHAPES_H_
