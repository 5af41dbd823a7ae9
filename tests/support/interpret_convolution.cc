// The definitions of the convolution ops: every term of ir/windows.h's formula,
// one by one.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/check.h"
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

}  // namespace stowage::interpret
