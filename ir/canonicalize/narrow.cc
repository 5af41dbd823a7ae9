#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "ir/canonicalize/expressions.h"

namespace stowage::canonical {
namespace {

constexpr int kMaxNarrowDepth = 24;
constexpr int64_t kMaxNarrowElements = int64_t{1} << 24;

int64_t CountOf(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

template <typename T>
std::optional<std::vector<double>> Decoded(const std::string& data,
                                           size_t count) {
  if (data.size() != count * sizeof(T)) return {};
  std::vector<double> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    T number;
    std::memcpy(&number, data.data() + i * sizeof(T), sizeof(T));
    numbers[i] = static_cast<double>(number);
  }
  return numbers;
}

// Drops the repetition along each axis.
Narrow WithoutRepetition(Narrow wide) {
  for (size_t axis = 0; axis < wide.dims.size(); ++axis) {
    const int64_t size = wide.dims[axis];
    if (size == 1) continue;
    const int64_t inner = CountOf(
        {wide.dims.begin() + static_cast<long>(axis) + 1, wide.dims.end()});
    const auto at = [&](int64_t outer, int64_t i, int64_t j) {
      return wide.numbers[Index((outer * size + i) * inner + j)];
    };
    const int64_t outers = CountOf(wide.dims) / (size * inner);
    bool repeats = true;
    std::vector<double> once;
    for (int64_t outer = 0; outer < outers && repeats; ++outer) {
      for (int64_t j = 0; j < inner && repeats; ++j) {
        once.push_back(at(outer, 0, j));
        for (int64_t i = 1; i < size && repeats; ++i) {
          repeats = at(outer, i, j) == once.back();
        }
      }
    }
    if (!repeats) continue;
    wide.numbers = std::move(once);
    wide.dims[axis] = 1;
  }
  return wide;
}

std::optional<Narrow> OfConstant(const Node& node, const TensorType& type) {
  const int64_t elements = type.shape.num_elements();
  if (elements > kMaxNarrowElements) return {};
  const auto count = static_cast<size_t>(elements);
  const std::string& data = node.attrs.Data("data");
  std::optional<std::vector<double>> numbers;
  switch (type.dtype) {
    case DType::kF32:
      numbers = Decoded<float>(data, count);
      break;
    case DType::kF64:
      numbers = Decoded<double>(data, count);
      break;
    case DType::kI32:
      numbers = Decoded<int32_t>(data, count);
      break;
    case DType::kI64:
      numbers = Decoded<int64_t>(data, count);
      break;
    case DType::kBool:
      numbers = Decoded<uint8_t>(data, count);
      break;
    default:
      return {};
  }
  if (!numbers) return {};
  return WithoutRepetition(
      {{type.shape.begin(), type.shape.end()}, *std::move(numbers)});
}

// The same elements in another shape that adds or drops axes of one element.
std::optional<Narrow> ReshapedNarrow(Narrow narrow, const Shape& from,
                                     const Shape& to) {
  std::vector<int64_t> dims;
  int i = 0;
  for (const int64_t size : to) {
    if (size == 1) {
      dims.push_back(1);
      continue;
    }
    while (i < from.rank() && from[i] == 1) ++i;
    if (i == from.rank() || from[i] != size) return {};
    dims.push_back(narrow.dims[Index(i)]);
    ++i;
  }
  while (i < from.rank() && from[i] == 1) ++i;
  if (i != from.rank()) return {};
  narrow.dims = std::move(dims);
  return narrow;
}

using Function = std::function<double(const double*)>;

// A function of the elements of up to three operands, broadcast as in NumPy.
std::optional<Narrow> Elementwise(const std::vector<Narrow>& operands,
                                  const Function& f) {
  Narrow y{operands[0].dims, {}};
  for (const Narrow& each : operands) {
    if (each.dims.size() != y.dims.size()) return {};
    for (size_t i = 0; i < y.dims.size(); ++i) {
      y.dims[i] = std::max(y.dims[i], each.dims[i]);
    }
  }
  const int64_t count = CountOf(y.dims);
  if (count > kMaxNarrowElements) return {};
  y.numbers.resize(static_cast<size_t>(count));
  for (int64_t at = 0; at < count; ++at) {
    double given[3] = {};
    for (size_t o = 0; o < operands.size(); ++o) {
      int64_t rest = at, place = 0, stride = 1;
      for (size_t i = y.dims.size(); i-- > 0;) {
        if (operands[o].dims[i] > 1) place += rest % y.dims[i] * stride;
        stride *= operands[o].dims[i];
        rest /= y.dims[i];
      }
      given[o] = operands[o].numbers[Index(place)];
    }
    y.numbers[Index(at)] = f(given);
  }
  return y;
}

Function FunctionOf(OpKind op) {
  switch (op) {
    case OpKind::kAdd:
      return [](const double* x) { return x[0] + x[1]; };
    case OpKind::kSub:
      return [](const double* x) { return x[0] - x[1]; };
    case OpKind::kMul:
      return [](const double* x) { return x[0] * x[1]; };
    case OpKind::kNeg:
      return [](const double* x) { return -x[0]; };
    case OpKind::kLess:
      return [](const double* x) { return x[0] < x[1] ? 1.0 : 0.0; };
    case OpKind::kLessEqual:
      return [](const double* x) { return x[0] <= x[1] ? 1.0 : 0.0; };
    case OpKind::kGreater:
      return [](const double* x) { return x[0] > x[1] ? 1.0 : 0.0; };
    case OpKind::kGreaterEqual:
      return [](const double* x) { return x[0] >= x[1] ? 1.0 : 0.0; };
    case OpKind::kEqual:
      return [](const double* x) { return x[0] == x[1] ? 1.0 : 0.0; };
    case OpKind::kNotEqual:
      return [](const double* x) { return x[0] != x[1] ? 1.0 : 0.0; };
    case OpKind::kLogicalAnd:
      return [](const double* x) { return x[0] != 0 && x[1] != 0 ? 1.0 : 0.0; };
    case OpKind::kLogicalOr:
      return [](const double* x) { return x[0] != 0 || x[1] != 0 ? 1.0 : 0.0; };
    case OpKind::kLogicalNot:
      return [](const double* x) { return x[0] == 0 ? 1.0 : 0.0; };
    case OpKind::kWhere:
      return [](const double* x) { return x[0] != 0 ? x[1] : x[2]; };
    default:
      return {};
  }
}

std::optional<Narrow> NarrowAt(const Expressions& e, ValueId id, int depth) {
  const Graph& graph = e.graph();
  const ValueInfo& value = graph.value(id);
  if (value.producer == kNoNode || depth == kMaxNarrowDepth) return {};
  const Node& node = graph.node(value.producer);
  const Shape& shape = value.type.shape;
  const auto operand = [&](size_t i) {
    return NarrowAt(e, node.inputs[i], depth + 1);
  };
  const auto shape_of = [&](size_t i) -> const Shape& {
    return graph.value(node.inputs[i]).type.shape;
  };
  switch (node.op) {
    case OpKind::kConstant:
      return OfConstant(node, value.type);
    case OpKind::kFill:
      return Narrow{std::vector<int64_t>(static_cast<size_t>(shape.rank()), 1),
                    {node.attrs.Float("value")}};
    case OpKind::kCopy:
      return operand(0);
    case OpKind::kBroadcast: {
      auto narrow = operand(0);
      if (!narrow) return {};
      narrow->dims.insert(
          narrow->dims.begin(),
          static_cast<size_t>(shape.rank()) - narrow->dims.size(), 1);
      return narrow;
    }
    case OpKind::kReshape: {
      auto narrow = operand(0);
      if (!narrow) return {};
      return ReshapedNarrow(*std::move(narrow), shape_of(0), shape);
    }
    case OpKind::kCast: {
      auto narrow = operand(0);
      if (!narrow) return {};
      for (double& x : narrow->numbers) {
        if (value.type.dtype == DType::kBool) {
          x = x != 0 ? 1 : 0;
        } else if (!IsFloat(value.type.dtype)) {
          x = std::trunc(x);
        }
      }
      return narrow;
    }
    default: {
      const Function f = FunctionOf(node.op);
      if (!f || node.inputs.size() > 3) return {};
      std::vector<Narrow> operands;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        auto narrow = operand(i);
        if (!narrow) return {};
        operands.push_back(*std::move(narrow));
      }
      return Elementwise(operands, f);
    }
  }
}

}  // namespace

const Narrow* NarrowOf(const Expressions& e, ValueId id) {
  auto [found, is_new] = e.narrows().try_emplace(id);
  if (is_new) found->second = NarrowAt(e, id, 0);
  return found->second ? &*found->second : nullptr;
}

}  // namespace stowage::canonical
