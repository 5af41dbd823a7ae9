// The definitions of convolutions, pooling, resize and pad, and of their gradients, element by
// element. Convolutions add up every term of ir/windows.h's formula.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "base/result.h"
#include "ir/op_kind.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

using Index = std::vector<int64_t>;

// Calls f for every index below `limits`, the last one fastest.
void ForEachIndex(const Index& limits,
                  const std::function<void(const Index&)>& f) {
  for (const int64_t limit : limits) {
    if (limit < 1) return;
  }
  Index index(limits.size(), 0);
  for (;;) {
    f(index);
    size_t i = limits.size();
    while (i > 0 && ++index[i - 1] == limits[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

// The element at (first, second, rest...).
size_t At(const Shape& shape, int64_t first, int64_t second,
          const Index& rest) {
  int64_t at = first * shape[1] + second;
  for (size_t i = 0; i < rest.size(); ++i) {
    at = at * shape[static_cast<int>(i) + 2] + rest[i];
  }
  return static_cast<size_t>(at);
}

Index Spatial(const Shape& shape) {
  return Index(shape.begin() + 2, shape.end());
}

// Calls term(element of x, of w, of y) for every product there is.
void ForTerms(const Attrs& attrs, const Shape& x, const Shape& w,
              const Shape& y,
              const std::function<void(size_t, size_t, size_t)>& term) {
  const int64_t filters = w[0] / attrs.Int("groups");  // of a group
  ForEachIndex({y[0], y[1], w[1]}, [&](const Index& of) {
    const int64_t image = of[0], filter = of[1], channel = of[2];
    ForEachIndex(Spatial(y), [&](const Index& out) {
      ForEachIndex(Spatial(w), [&](const Index& k) {
        Index in;
        for (size_t i = 0; i < out.size(); ++i) {
          in.push_back(out[i] * attrs.Ints("stride")[i] -
                       attrs.Ints("padding")[i] +
                       k[i] * attrs.Ints("dilation")[i]);
          if (in[i] < 0 || in[i] >= x[static_cast<int>(i) + 2]) return;
        }
        term(At(x, image, filter / filters * w[1] + channel, in),
             At(w, filter, channel, k), At(y, image, filter, out));
      });
    });
  });
}

}  // namespace

void Convolution(Call& c) {
  const Array& a = c.input(0);
  const Array& b = c.input(1);
  Array& result = c.out[0];
  switch (c.node.op) {
    case OpKind::kConv:
      return ForTerms(c.node.attrs, a.shape, b.shape, result.shape,
                      [&](size_t x, size_t w, size_t y) {
                        result.data.at(y) += a.data.at(x) * b.data.at(w);
                      });
    case OpKind::kConvTranspose:
      return ForTerms(c.node.attrs, result.shape, b.shape, a.shape,
                      [&](size_t x, size_t w, size_t y) {
                        result.data.at(x) += a.data.at(y) * b.data.at(w);
                      });
    case OpKind::kConvWeightGrad:
      return ForTerms(c.node.attrs, a.shape, result.shape, b.shape,
                      [&](size_t x, size_t w, size_t y) {
                        result.data.at(w) += a.data.at(x) * b.data.at(y);
                      });
    default:
      STOWAGE_CHECK(false);
  }
}

// --- Pooling --------------------------------------------------------------------------

namespace {

// Calls visit(at, is_inside) for every element of window `window` of a tensor
// (N, C, spatial...), in row-major order; `at` may lie in the padding. Rows and
// columns that are beyond the padding too are left out, as ceil_mode has it.
void ForWindow(const Call& c, const Shape& x, const Dims& window,
               const std::function<void(const Dims&, bool)>& visit) {
  Shape offsets = {1, 1};
  for (const int64_t size : c.Ints("kernel")) offsets.push_back(size);
  for (int64_t i = 0; i < offsets.num_elements(); ++i) {
    const Dims offset = Coordinates(offsets, i);
    Dims at = window;
    bool is_inside = true;
    bool is_counted = true;
    for (int axis = 2; axis < x.rank(); ++axis) {
      const auto k = static_cast<size_t>(axis) - 2;
      const int64_t dilation =
          c.node.attrs.Find("dilation") == nullptr ? 1 : c.Ints("dilation")[k];
      at[axis] = window[axis] * c.Ints("stride")[k] - c.Ints("pad_before")[k] +
                 offset[axis] * dilation;
      is_inside = is_inside && at[axis] >= 0 && at[axis] < x[axis];
      is_counted = is_counted && at[axis] < x[axis] + c.Ints("pad_after")[k];
    }
    if (is_counted) visit(at, is_inside);
  }
}

// The place of the first of the largest elements of a window.
int64_t PlaceOfLargest(const Call& c, const Array& x, const Dims& window) {
  int64_t best = -1;
  ForWindow(c, x.shape, window, [&](const Dims& at, bool is_inside) {
    if (!is_inside) return;
    const int64_t place = Position(x.shape, at);
    if (best >= 0 && std::isnan(x[best])) return;
    if (best < 0 || std::isnan(x[place]) || x[place] > x[best]) best = place;
  });
  STOWAGE_CHECK(best >= 0);
  return best;
}

double CountOf(const Call& c, const Shape& x, const Dims& window) {
  double count = 0;
  ForWindow(c, x, window, [&](const Dims&, bool is_inside) {
    if (is_inside || c.Int("count_include_pad") == 1) ++count;
  });
  return count;
}

}  // namespace

void Pooling(Call& c) {
  const bool is_grad =
      c.node.op == OpKind::kMaxPoolGrad || c.node.op == OpKind::kAvgPoolGrad;
  const Array& last = *c.in.back();  // x, or dy of a gradient
  Array& out = c.out[0];
  const Array& windows = is_grad ? last : out;
  for (int64_t i = 0; i < windows.size(); ++i) {
    const Dims window = Coordinates(windows.shape, i);
    switch (c.node.op) {
      case OpKind::kMaxPool:
        out[i] = last[PlaceOfLargest(c, last, window)];
        break;
      case OpKind::kMaxPoolGrad:
        out[PlaceOfLargest(c, c.input(0), window)] += last[i];
        break;
      case OpKind::kAvgPool: {
        double sum = 0;
        ForWindow(c, last.shape, window, [&](const Dims& at, bool is_inside) {
          if (is_inside) sum += last[Position(last.shape, at)];
        });
        out[i] = sum / CountOf(c, last.shape, window);
        break;
      }
      default: {
        const double share = last[i] / CountOf(c, out.shape, window);
        ForWindow(c, out.shape, window, [&](const Dims& at, bool is_inside) {
          if (is_inside) out[Position(out.shape, at)] += share;
        });
      }
    }
  }
}

// --- Resize, with positions as real numbers -------------------------------------------

namespace {

// Where element o of `out` lies among `in`: element `low` and, with a weight, the
// next.
struct Place {
  int64_t low;
  double weight;
};

Place PlaceOf(const Call& c, int64_t o, int64_t in, int64_t out) {
  if (c.Int("mode") == 0) return {o * in / out, 0};
  const auto n = static_cast<double>(in);
  const auto m = static_cast<double>(out);
  const auto at = static_cast<double>(o);
  double place = (at + 0.5) * n / m - 0.5;
  if (c.Int("align_corners") == 1) place = m > 1 ? at * (n - 1) / (m - 1) : 0;
  place = std::min(std::max(place, 0.0), n - 1);
  const double low = std::floor(place);
  return {static_cast<int64_t>(low), place - low};
}

// Calls visit(index, weight) for the elements of x that element `at` of y is made
// of, from axis `axis` on.
void ForParts(const Call& c, const Shape& x, const Shape& y, Dims at, int axis,
              double weight,
              const std::function<void(const Dims&, double)>& visit) {
  if (axis == x.rank()) return visit(at, weight);
  const Place place = PlaceOf(c, at[axis], x[axis], y[axis]);
  at[axis] = place.low;
  ForParts(c, x, y, at, axis + 1, weight * (1 - place.weight), visit);
  if (place.low + 1 >= x[axis]) return;
  at[axis] = place.low + 1;
  ForParts(c, x, y, at, axis + 1, weight * place.weight, visit);
}

}  // namespace

void Resizing(Call& c) {
  const bool is_grad = c.node.op == OpKind::kResizeGrad;
  const Array& last = c.input(0);
  Array& out = c.out[0];
  const Shape& x = is_grad ? out.shape : last.shape;
  const Shape& y = is_grad ? last.shape : out.shape;
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    ForParts(c, x, y, Coordinates(y, i), 2, 1,
             [&](const Dims& at, double weight) {
               const int64_t part = Position(x, at);
               if (is_grad) {
                 out[part] += weight * last[i];
               } else {
                 out[i] += weight * last[part];
               }
             });
  }
}

// --- Pad ------------------------------------------------------------------------------

namespace {

// Walks from `at` back into [0, n): mirrored at both ends, or stopped there.
int64_t Inside(int64_t at, int64_t n, bool reflects) {
  while (at < 0 || at >= n) {
    if (!reflects) return at < 0 ? 0 : n - 1;
    at = at < 0 ? -at : n - 1 - (at - (n - 1));
  }
  return at;
}

}  // namespace

void Padding(Call& c) {
  const bool is_grad = c.node.op == OpKind::kPadGrad;
  const Array& last = c.input(0);
  Array& out = c.out[0];
  const Shape& x = is_grad ? out.shape : last.shape;
  const Shape& y = is_grad ? last.shape : out.shape;
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    Dims at = Coordinates(y, i);
    bool is_constant = false;
    for (int axis = 0; axis < x.rank(); ++axis) {
      at[axis] -= c.Ints("before")[static_cast<size_t>(axis)];
      const bool outside = at[axis] < 0 || at[axis] >= x[axis];
      if (outside && c.Int("mode") == 0) is_constant = true;
      at[axis] = Inside(at[axis], x[axis], c.Int("mode") == 1);
    }
    if (is_grad) {
      out[Position(x, at)] += last[i];
    } else {
      out[i] = is_constant ? c.Float("value") : last[Position(x, at)];
    }
  }
}

}  // namespace stowage::interpret
