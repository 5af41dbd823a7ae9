// max_pool, avg_pool and their gradients, from what the attributes say, window by
// window and element by element.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "base/check.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {
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

}  // namespace stowage::interpret
