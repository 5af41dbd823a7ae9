#ifndef STOWAGE_ONNX_SHAPES_H_
#define STOWAGE_ONNX_SHAPES_H_

// The meaning of nodes that move elements: the shape after a Reshape, the elements of a
// Slice. Shared by the conversions and by constant folding (onnx/fold.h).
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

/// Dimensions as a shape; 0 is allowed. Errors: a negative dimension, too many, more than
/// 2^63 - 1 elements.
Result<Shape> ShapeOfDims(const ImportedNode& node,
                          std::span<const int64_t> dims);

/// The shape that both broadcast to by NumPy's rules. Error: there is none.
Result<Shape> Broadcast(const ImportedNode& node, const Shape& a,
                        const Shape& b);

Result<Shape> ShapeAfterReshape(ImportedNode& node);
Result<Shape> ShapeAfterSqueeze(ImportedNode& node);
Result<Shape> ShapeAfterUnsqueeze(ImportedNode& node);
Result<Shape> ShapeAfterExpand(ImportedNode& node);

/// The result of a ConstantOfShape: its shape, and its value, a scalar.
struct FilledShape {
  Shape shape;
  Array value;
};
Result<FilledShape> FilledShapeOf(ImportedNode& node);

/// The permutation of axes of a Transpose.
Result<std::vector<int64_t>> OrderOf(ImportedNode& node);

/// `count` elements of an axis: start, start + step, ...; the step may be negative and the
/// count 0.
struct SliceOfAxis {
  int axis = 0;
  int64_t start = 0, step = 1, count = 0;
};
Result<std::vector<SliceOfAxis>> SlicesOf(ImportedNode& node);

/// The result of a Range: start, start + step, ...
struct RangeOfNumbers {
  double start = 0, step = 1;
  int64_t count = 0;
};
Result<RangeOfNumbers> RangeOf(ImportedNode& node);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_SHAPES_H_
