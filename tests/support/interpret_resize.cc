// resize and its gradient, element by element, with places as real numbers.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {
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

}  // namespace stowage::interpret
