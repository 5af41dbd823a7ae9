// Random draws, keyed by the run's seed and the step (ir/ops.h) for reproducibility; seeds in
// the file are ignored.

#include "base/strings.h"
#include "ir/ops.h"
#include "onnx/ops.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

// The dtype attribute of the node, or `otherwise`.
Result<DType> DTypeOf(const ImportedNode& node, DType otherwise) {
  if (!node.Find("dtype")) return otherwise;
  return DTypeOfElement(static_cast<int32_t>(node.Int("dtype", 1)));
}

Result<Values> Uniform(ImportedNode& node, DType dtype, const Shape& shape) {
  const double low = node.Float("low", 0), high = node.Float("high", 1);
  const Draws draws = NextDraws(node);
  const Value drawn =
      RandomUniform(draws.seed, draws.step, shape, dtype, draws.id);
  return Values{AddScalar(MulScalar(drawn, high - low), low)};
}

Result<Values> Normal(ImportedNode& node, DType dtype, const Shape& shape) {
  const Draws draws = NextDraws(node);
  const Value drawn =
      RandomNormal(draws.seed, draws.step, shape, dtype, draws.id);
  return Values{AddScalar(MulScalar(drawn, node.Float("scale", 1)),
                          node.Float("mean", 0))};
}

Result<Shape> ShapeToMake(const ImportedNode& node) {
  Shape shape;
  const std::vector<int64_t> dims = node.IntList("shape");
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return node.Wrong(StrCat("makes ", dims.size(), " dimensions; at most ",
                             kMaxRank, " are supported"));
  }
  for (const int64_t dim : dims) shape.push_back(dim);
  return shape;
}

using Draw = Result<Values>(ImportedNode& node, DType dtype,
                            const Shape& shape);

// Draws of the shape in the node, or of its operand.
Result<Values> DrawnAsSaid(ImportedNode& node, Draw draw) {
  STOWAGE_ASSIGN_OR_RETURN(const DType dtype, DTypeOf(node, DType::kF32));
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeToMake(node));
  return draw(node, dtype, shape);
}
Result<Values> DrawnLikeOperand(ImportedNode& node, Draw draw) {
  STOWAGE_ASSIGN_OR_RETURN(const DType dtype,
                           DTypeOf(node, node.Type(0).dtype));
  return draw(node, dtype, node.ShapeOf(0));
}

}  // namespace

Result<Values> ConvertRandomUniform(ImportedNode& node) {
  return DrawnAsSaid(node, Uniform);
}
Result<Values> ConvertRandomUniformLike(ImportedNode& node) {
  return DrawnLikeOperand(node, Uniform);
}
Result<Values> ConvertRandomNormal(ImportedNode& node) {
  return DrawnAsSaid(node, Normal);
}
Result<Values> ConvertRandomNormalLike(ImportedNode& node) {
  return DrawnLikeOperand(node, Normal);
}

// 1 with the probability given by each element of the operand.
Result<Values> ConvertBernoulli(ImportedNode& node) {
  const DType dtype = node.Type(0).dtype;
  STOWAGE_ASSIGN_OR_RETURN(const DType to, DTypeOf(node, dtype));
  const Draws draws = NextDraws(node);
  const Value drawn =
      RandomUniform(draws.seed, draws.step, node.ShapeOf(0), dtype, draws.id);
  return Values{Cast(Less(drawn, node.In(0)), to)};
}

}  // namespace stowage::onnx
