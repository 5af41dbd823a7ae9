#ifndef STOWAGE_IR_LINES_H_
#define STOWAGE_IR_LINES_H_

// A contiguous tensor seen along one axis: lines of `length` elements, `inner` apart.
// Element i of line (o, c) is element (o * length + i) * inner + c.
//
//   Lines::Along({2, 3, 4, 5}, 1);   // outer 2, length 3, inner 20

#include <cstdint>

#include "ir/shape.h"

namespace stowage {

struct Lines {
  int64_t outer = 1, length = 1, inner = 1;

  /// Precondition: axis in [0, shape.rank()).
  static Lines Along(const Shape& shape, int64_t axis) {
    Lines lines;
    for (int i = 0; i < shape.rank(); ++i) {
      (i < axis    ? lines.outer
       : i == axis ? lines.length
                   : lines.inner) *= shape[i];
    }
    return lines;
  }
};

}  // namespace stowage

#endif  // STOWAGE_IR_LINES_H_
