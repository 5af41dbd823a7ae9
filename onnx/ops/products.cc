// Matrix products and what is normalized like them.

#include <utility>

#include "base/strings.h"
#include "ir/einsum.h"
#include "ir/ops.h"
#include "onnx/ops.h"

namespace stowage::onnx {
namespace {

// By rows: from operator set 13 on along one axis; before, along all from it on.
Result<Values> ByRows(ImportedNode& node,
                      Value (*op)(Value, int64_t, SourceLoc)) {
  const Shape& shape = node.ShapeOf(0);
  const Value x = node.In(0);
  const bool one = node.version() >= 13;
  STOWAGE_ASSIGN_OR_RETURN(
      const int64_t axis,
      node.Axis(node.Int("axis", one ? -1 : 1), shape.rank()));
  if (one || axis + 1 == shape.rank()) {
    return Values{op(x, axis, SourceLoc::Current())};
  }
  int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= shape[i];
  const Value flat = Reshape(x, {rows, shape.num_elements() / rows});
  return Values{Reshape(op(flat, -1, SourceLoc::Current()), shape)};
}

// 1 at the largest element of each row, the first of equals, and 0 elsewhere.
Value HardmaxOf(Value x, int64_t axis, SourceLoc loc) {
  if (!x.ok()) return x;
  Axes order;
  for (int64_t i = 0; i < x.rank(); ++i) order.push_back(i);
  const int64_t last = x.rank() - 1;
  const int64_t at = axis < 0 ? axis + x.rank() : axis;
  std::swap(order[static_cast<size_t>(at)], order[static_cast<size_t>(last)]);
  const Value turned = Permute(x, order, loc);
  return Permute(
      OneHot(ArgMax(turned, loc), x.dim(static_cast<int>(at)), x.dtype(), loc),
      order, loc);
}

}  // namespace

Result<Values> ConvertSoftmax(ImportedNode& node) {
  return ByRows(node, Softmax);
}
Result<Values> ConvertLogSoftmax(ImportedNode& node) {
  return ByRows(node, LogSoftmax);
}

Result<Values> ConvertHardmax(ImportedNode& node) {
  return ByRows(node, HardmaxOf);
}

Result<Values> ConvertMatMul(ImportedNode& node) {
  const Shape &a = node.ShapeOf(0), &b = node.ShapeOf(1);
  if (a.rank() < 1 || b.rank() < 1) {
    return node.Wrong(StrCat("multiplies ", a.ToString(), " by ", b.ToString(),
                             "; expected at least one dimension each"));
  }
  // A vector is a row on the left and a column on the right.
  const Value left =
      a.rank() == 1 ? Reshape(node.In(0), {1, a[0]}) : node.In(0);
  const Value right =
      b.rank() == 1 ? Reshape(node.In(1), {b[0], 1}) : node.In(1);
  const Value y = MatMul(left, right);
  if (!y.ok() || (a.rank() > 1 && b.rank() > 1)) return Values{y};
  Shape shape;
  for (int i = 0; i < y.rank(); ++i) {
    const bool added = (a.rank() == 1 && i == y.rank() - 2) ||
                       (b.rank() == 1 && i == y.rank() - 1);
    if (!added) shape.push_back(y.dim(i));
  }
  return Values{Reshape(y, shape)};
}

Result<Values> ConvertGemm(ImportedNode& node) {
  const double alpha = node.Float("alpha", 1), beta = node.Float("beta", 1);
  Value y = MatMul(node.In(0), node.In(1), node.Int("transA", 0) != 0,
                   node.Int("transB", 0) != 0);
  if (alpha != 1) y = MulScalar(y, alpha);
  if (!node.Has(2) || beta == 0) return Values{y};
  const Value c = node.In(2);
  return Values{Add(y, beta == 1 ? c : MulScalar(c, beta))};
}

Result<Values> ConvertEinsum(ImportedNode& node) {
  Values operands;
  for (int i = 0; i < node.num_operands(); ++i) operands.push_back(node.In(i));
  std::string equation;
  for (const char c : node.Text("equation", "")) {
    if (c != ' ') equation += c;
  }
  return Values{Einsum(equation, operands)};
}

}  // namespace stowage::onnx
