// cumsum, take_along_axis, put_add, top_k and iota, element by element.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "ir/dtype.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {
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
