// Reductions.

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "ir/composites.h"
#include "ir/ops.h"
#include "onnx/ops.h"

namespace stowage::onnx {
namespace {

// The reduced axes; none if x is unchanged.
struct Reduced {
  Axes axes = {};
  bool keep = true;
};

Result<Reduced> ReducedOf(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const auto axes, node.IntsOrAttribute(1, "axes"));
  const int rank = node.ShapeOf(0).rank();
  Reduced reduced{.keep = node.Int("keepdims", 1) != 0};
  if (axes && !axes->empty()) {
    for (const int64_t axis : *axes) {
      STOWAGE_ASSIGN_OR_RETURN(const int64_t at, node.Axis(axis, rank));
      reduced.axes.push_back(at);
    }
  } else if (node.Int("noop_with_empty_axes", 0) == 0) {
    reduced.axes.resize(static_cast<size_t>(rank));
    std::iota(reduced.axes.begin(), reduced.axes.end(), 0);
  }
  return reduced;
}

// Applies `reduce` to operand 0; without axes, to each element.
template <typename Reduce>
Result<Values> Reduction(ImportedNode& node, Reduce reduce) {
  STOWAGE_ASSIGN_OR_RETURN(const Reduced reduced, ReducedOf(node));
  const Value x = node.In(0);
  if (!reduced.axes.empty()) {
    return Values{reduce(x, reduced.axes, reduced.keep)};
  }
  // An axis of one element, to be reduced.
  Shape shape = {1};
  for (const int64_t dim : node.ShapeOf(0)) shape.push_back(dim);
  return Values{reduce(Reshape(x, shape), Axes{0}, false)};
}

// The product along an axis, by multiplying halves until one element is left.
Value ProductAlong(Value x, int64_t axis) {
  while (x.ok() && x.dim(static_cast<int>(axis)) > 1) {
    const int64_t size = x.dim(static_cast<int>(axis)), half = size / 2;
    const Value product =
        Mul(Slice(x, axis, 0, half), Slice(x, axis, half, 2 * half));
    x = size % 2 == 0
            ? product
            : Concat(Values{product, Slice(x, axis, size - 1, size)}, axis);
  }
  return x;
}

}  // namespace

Result<Values> ConvertReduceProd(ImportedNode& node) {
  return Reduction(node, [](Value x, const Axes& axes, bool keep) {
    for (const int64_t axis : axes) x = ProductAlong(x, axis);
    if (keep || !x.ok()) return x;
    Shape shape;
    for (int i = 0; i < x.rank(); ++i) {
      if (std::find(axes.begin(), axes.end(), i) == axes.end()) {
        shape.push_back(x.dim(i));
      }
    }
    return Reshape(x, shape);
  });
}
Result<Values> ConvertReduceSum(ImportedNode& node) {
  return Reduction(node, [](Value x, const Axes& axes, bool keep) {
    return ReduceSum(x, axes, keep);
  });
}
Result<Values> ConvertReduceMean(ImportedNode& node) {
  return Reduction(node, [](Value x, const Axes& axes, bool keep) {
    return ReduceMean(x, axes, keep);
  });
}
Result<Values> ConvertReduceMax(ImportedNode& node) {
  return Reduction(node, [](Value x, const Axes& axes, bool keep) {
    return ReduceMax(x, axes, keep);
  });
}
Result<Values> ConvertReduceMin(ImportedNode& node) {
  return Reduction(node, [](Value x, const Axes& axes, bool keep) {
    return Neg(ReduceMax(Neg(x), axes, keep));
  });
}
Result<Values> ConvertReduceL1(ImportedNode& node) {
  return Reduction(node, [](Value x, const Axes& axes, bool keep) {
    return ReduceSum(Abs(x), axes, keep);
  });
}
Result<Values> ConvertReduceL2(ImportedNode& node) {
  return Reduction(node, [](Value x, const Axes& axes, bool keep) {
    return Norm(x, 2, axes, keep);
  });
}
Result<Values> ConvertReduceSumSquare(ImportedNode& node) {
  return Reduction(node, [](Value x, const Axes& axes, bool keep) {
    return ReduceSum(Square(x), axes, keep);
  });
}
Result<Values> ConvertReduceLogSum(ImportedNode& node) {
  return Reduction(node, [](Value x, const Axes& axes, bool keep) {
    return Log(ReduceSum(x, axes, keep));
  });
}
Result<Values> ConvertReduceLogSumExp(ImportedNode& node) {
  return Reduction(node, [](Value x, const Axes& axes, bool keep) {
    return LogSumExp(x, axes, keep);
  });
}

}  // namespace stowage::onnx
