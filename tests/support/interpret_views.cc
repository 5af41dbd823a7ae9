// The definitions of views.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "ir/shape.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {
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

}  // namespace stowage::interpret
