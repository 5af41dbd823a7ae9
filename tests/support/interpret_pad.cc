// pad and its gradient, element by element.

#include <cstddef>
#include <cstdint>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {
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
