// The definitions of constants, views, and ops that index along an axis.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/tensor_type.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

template <typename T>
double Decode(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

double DecodeHalf(const char* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, 2);
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24)
                               : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  }
  return bits >> 15 ? -value : value;
}

double DecodeBFloat(const char* bytes) {
  uint16_t high;
  std::memcpy(&high, bytes, 2);
  const uint32_t bits = uint32_t{high} << 16;
  return Decode<float>(reinterpret_cast<const char*>(&bits));
}

double DecodeAs(DType dtype, const char* bytes) {
  switch (dtype) {
    case DType::kF32:
      return Decode<float>(bytes);
    case DType::kF64:
      return Decode<double>(bytes);
    case DType::kF16:
      return DecodeHalf(bytes);
    case DType::kBF16:
      return DecodeBFloat(bytes);
    case DType::kI16:
      return Decode<int16_t>(bytes);
    case DType::kI32:
      return Decode<int32_t>(bytes);
    case DType::kI64:
      return Decode<int64_t>(bytes);
    case DType::kU8:
    case DType::kBool:
      return Decode<uint8_t>(bytes);
  }
  STOWAGE_CHECK(false);
}

}  // namespace

void Constant(Call& c) {
  const DType dtype = c.node.attrs.Type("dtype");
  const std::string& bytes = c.node.attrs.Data("data");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    c.out[0][i] = DecodeAs(dtype, bytes.data() + i * SizeOf(dtype));
  }
}

// --- Views ----------------------------------------------------------------------------

namespace {

// out[r][index] = in[source(index)]
void View(Call& c, size_t r, const std::function<Dims(const Dims&)>& source) {
  Array& out = c.out[r];
  for (int64_t i = 0; i < out.size(); ++i) {
    out[i] = c.input(
        0)[Position(c.input(0).shape, source(Coordinates(out.shape, i)))];
  }
}

}  // namespace

void Permute(Call& c) {
  const std::vector<int64_t>& order = c.Ints("order");
  View(c, 0, [&](const Dims& index) {
    Dims source = index;
    for (int i = 0; i < index.rank(); ++i) {
      source[static_cast<int>(order[static_cast<size_t>(i)])] = index[i];
    }
    return source;
  });
}

void Slice(Call& c) {
  const int axis = static_cast<int>(c.Int("axis"));
  View(c, 0, [&](Dims index) {
    index[axis] = c.Int("start") + index[axis] * c.Int("step");
    return index;
  });
}

void Split(Call& c) {
  const int axis = static_cast<int>(c.Int("axis"));
  int64_t start = 0;
  for (size_t r = 0; r < c.out.size(); ++r) {
    View(c, r, [&](Dims index) {
      index[axis] += start;
      return index;
    });
    start += c.out[r].shape[axis];
  }
}

void Broadcast(Call& c) {
  const Shape& from = c.input(0).shape;
  View(c, 0, [&](const Dims& index) {
    Dims source = Dims::Filled(from.rank(), 0);
    const int added = index.rank() - from.rank();
    for (int i = 0; i < from.rank(); ++i) {
      if (from[i] != 1) source[i] = index[added + i];
    }
    return source;
  });
}

// --- Along an axis: cumsum, take_along_axis, put_add, top_k, iota ---------------------

namespace {

int Axis(const Call& c) { return static_cast<int>(c.Int("axis")); }

// The element of `x` at `at`, but at indices[i] along the axis.
int64_t Indexed(const Call& c, const Shape& x, Dims at, int64_t i) {
  const auto index = static_cast<int64_t>(c.input(1)[i]);
  STOWAGE_CHECK(index >= 0 && index < x[Axis(c)]);
  at[Axis(c)] = index;
  return Position(x, at);
}

}  // namespace

void CumSum(Call& c) {
  const Array& x = c.input(0);
  const bool exclusive = c.Int("exclusive") == 1;
  const bool reverse = c.Int("reverse") == 1;
  for (int64_t i = 0; i < x.size(); ++i) {
    Dims at = Coordinates(x.shape, i);
    const int64_t own = at[Axis(c)];
    for (int64_t j = 0; j < x.shape[Axis(c)]; ++j) {
      at[Axis(c)] = j;
      const bool before = reverse ? j > own : j < own;
      if (before || (j == own && !exclusive)) {
        c.out[0][i] += x[Position(x.shape, at)];
      }
    }
  }
}

void TakeAlongAxis(Call& c) {
  Array& y = c.out[0];
  for (int64_t i = 0; i < y.size(); ++i) {
    y[i] = c.input(0)[Indexed(c, c.input(0).shape, Coordinates(y.shape, i), i)];
  }
}

void PutAdd(Call& c) {
  const Array& updates = c.input(2);
  c.out[0] = c.input(0);
  for (int64_t i = 0; i < updates.size(); ++i) {
    c.out[0][Indexed(c, c.out[0].shape, Coordinates(updates.shape, i), i)] +=
        updates[i];
  }
}

// Without NaN.
void TopK(Call& c) {
  const Array& x = c.input(0);
  const int64_t n = x.shape.back();
  const int64_t k = c.Int("k");
  for (int64_t first = 0; first < x.size(); first += n) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < n; ++i) places.push_back(i);
    const double sign = c.Int("descending") == 1 ? -1 : 1;
    std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
      return sign * x[first + a] < sign * x[first + b];
    });
    for (int64_t i = 0; i < k; ++i) {
      const int64_t place = places[static_cast<size_t>(i)];
      c.out[0][first / n * k + i] = x[first + place];
      c.out[1][first / n * k + i] = static_cast<double>(place);
    }
  }
}

void Iota(Call& c) {
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double y =
        c.Float("start") + static_cast<double>(i) * c.Float("step");
    const bool is_f32 = c.node.attrs.Type("dtype") == DType::kF32;
    c.out[0][i] = is_f32 ? static_cast<float>(y) : y;
  }
}

}  // namespace stowage::interpret
