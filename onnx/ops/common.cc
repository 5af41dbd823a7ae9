#include "onnx/ops/common.h"

#include <numeric>
#include <span>
#include <utility>

#include "formats/numbers.h"
#include "ir/ops.h"
#include "onnx/node.h"

namespace stowage::onnx {

Value Like(Value x, double number) {
  return x.ok() ? Fill(*x.builder(), number, x.dtype(), {}) : x;
}

Value ConstantInts(GraphBuilder& g, const std::vector<int64_t>& ints) {
  const Array array =
      ArrayOf(DType::kI64, {static_cast<int64_t>(ints.size())}, ints);
  return Constant(g, array.type.dtype, array.type.shape, array.data());
}

Value TakeAlong(Value x, int axis, int64_t start, int64_t step, int64_t count) {
  if (!x.ok()) return x;
  const Value places =
      Iota(*x.builder(), DType::kI64, static_cast<double>(start),
           static_cast<double>(step), count);
  Axes first(static_cast<size_t>(x.rank()));
  std::iota(first.begin(), first.end(), 0);
  std::swap(first[0], first[static_cast<size_t>(axis)]);
  return Permute(Gather(Permute(x, first), places), first);
}

Value PerChannel(Value v, int rank) {
  if (!v.ok()) return v;
  Shape shape = {v.shape().num_elements()};
  while (shape.rank() < rank - 1) shape.push_back(1);
  return Reshape(v, shape);
}

}  // namespace stowage::onnx
