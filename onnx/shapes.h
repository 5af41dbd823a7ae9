#ifndef STOWAGE_ONNX_SHAPES_H_
#define STOWAGE_ONNX_SHAPES_H_

// What the nodes that move elements mean: the shape after a Reshape, the elements that
// a Slice takes. Read the same way where the graph moves them and where the import
// does (onnx/fold.h).
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

/// Dimensions as a shape; 0 is allowed. Error: a negative one, too many, more elements
/// than 63 bits count.
Result<Shape> ShapeOfDims(const ImportedNode& node,
                          std::span<const int64_t> dims);

/// The shape that both broadcast to, as NumPy has it. Error: there is none.
Result<Shape> Broadcast(const ImportedNode& node, const Shape& a,
                        const Shape& b);

Result<Shape> ShapeAfterReshape(ImportedNode& node);
Result<Shape> ShapeAfterSqueeze(ImportedNode& node);
Result<Shape> ShapeAfterUnsqueeze(ImportedNode& node);
Result<Shape> ShapeAfterExpand(ImportedNode& node);

/// What a ConstantOfShape makes: its shape, and the one number, a scalar, that it holds
/// everywhere.
struct FilledShape {
  Shape shape;
  Array value;
};
Result<FilledShape> FilledShapeOf(ImportedNode& node);

/// The order of axes that a Transpose gives its result.
Result<std::vector<int64_t>> OrderOf(ImportedNode& node);

/// `count` elements of an axis, from `start` on, every `step`-th; a step may be below
/// 0 and a count 0.
struct SliceOfAxis {
  int axis = 0;
  int64_t start = 0, step = 1, count = 0;
};
Result<std::vector<SliceOfAxis>> SlicesOf(ImportedNode& node);

/// start, start + step, ...: what a Range makes.
struct RangeOfNumbers {
  double start = 0, step = 1;
  int64_t count = 0;
};
Result<RangeOfNumbers> RangeOf(ImportedNode& node);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_SHAPES_H_
