#include "autodiff/vjps/shapes.h"

#include <optional>

namespace stowage {
namespace {

// Whether each axis of a tensor of this rank is among `axes`.
std::vector<bool> IsAmong(const Axes& axes, int rank) {
  std::vector<bool> among(static_cast<size_t>(rank), axes.empty());
  for (const int64_t axis : axes) {
    among[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  return among;
}

}  // namespace

Value Zeros(GraphBuilder& g, const TensorType& type) {
  return BroadcastTo(Fill(g, 0, type.dtype, {}), type.shape);
}

Value AccumulatedOrZeros(VjpContext& v, int i) {
  if (const std::optional<Value> so_far = v.TakeAccumulated(i)) return *so_far;
  const TensorType& type = v.input_type(i);
  return Fill(v.builder(), 0, type.dtype, type.shape);
}

Value ReshapeTo(Value x, const Shape& shape) {
  return x.shape() == shape ? x : Reshape(x, shape);
}

Value SumTo(Value x, const Shape& shape) {
  const int leading = x.rank() - shape.rank();
  Axes axes;
  bool keep = false;
  for (int i = 0; i < x.rank(); ++i) {
    const bool is_new = i < leading;
    if (!is_new && x.dim(i) == shape[i - leading]) continue;
    axes.push_back(i);
    keep |= !is_new;
  }
  if (axes.empty()) return x;
  return ReshapeTo(ReduceSum(x, axes, keep), shape);
}

Value Unreduce(Value reduced, const Axes& axes, const Shape& shape) {
  if (reduced.rank() == 0) return BroadcastTo(reduced, shape);
  const std::vector<bool> among = IsAmong(axes, shape.rank());
  Shape kept = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    if (among[static_cast<size_t>(i)]) kept[i] = 1;
  }
  return BroadcastTo(ReshapeTo(reduced, kept), shape);
}

int64_t CountAlong(const Shape& shape, const Axes& axes) {
  const std::vector<bool> among = IsAmong(axes, shape.rank());
  int64_t count = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (among[static_cast<size_t>(i)]) count *= shape[i];
  }
  return count;
}

}  // namespace stowage
