#include "onnx/ops/common.h"

#include <numeric>
#include <span>
#include <utility>

#include "ir/ops.h"
#include "onnx/node.h"

namespace stowage::onnx {

Value Like(Value x, double number) {
  return x.ok() ? Fill(*x.builder(), number, x.dtype(), {}) : x;
}

Value ConstantInts(GraphBuilder& g, const std::vector<int64_t>& ints) {
  const Array array =
      ArrayOf(DType::kI64, {static_cast<int64_t>(ints.size())}, ints);
  return Constant(g, array.type.dtype, array.type.shape,
                  std::as_bytes(std::span<const char>(array.bytes)));
}

Value TakeAlong(Value x, int axis, const std::vector<int64_t>& places) {
  if (!x.ok()) return x;
  Axes first(static_cast<size_t>(x.rank()));
  std::iota(first.begin(), first.end(), 0);
  std::swap(first[0], first[static_cast<size_t>(axis)]);
  const Value taken =
      Gather(Permute(x, first), ConstantInts(*x.builder(), places));
  return Permute(taken, first);
}

Value PerChannel(Value v, int rank) {
  if (!v.ok()) return v;
  Shape shape = {v.shape().num_elements()};
  while (shape.rank() < rank - 1) shape.push_back(1);
  return Reshape(v, shape);
}

}  // namespace stowage::onnx
