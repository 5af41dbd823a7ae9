#include "planner/packing/linear.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/bytes.h"

namespace stowage::packing {

Solution PackLinearly(const Problem& problem) {
  std::vector<size_t> fixed;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.offset && b.size > 0) fixed.push_back(i);
  }
  std::stable_sort(fixed.begin(), fixed.end(), [&](size_t a, size_t b) {
    return *problem.buffers[a].offset < *problem.buffers[b].offset;
  });

  Solution solution;
  Bytes top = 0;    // all below it is taken or left behind
  size_t next = 0;  // the first fixed buffer not yet below `top`
  for (const Buffer& b : problem.buffers) {
    Bytes offset = b.offset.value_or(0);
    if (!b.offset && b.size > 0) {
      offset = AlignUp(top, b.alignment);
      for (; next < fixed.size(); ++next) {
        const Buffer& obstacle = problem.buffers[fixed[next]];
        if (offset + b.size <= *obstacle.offset) break;
        offset = std::max(
            offset, AlignUp(*obstacle.offset + obstacle.size, b.alignment));
      }
      top = offset + b.size;
    }
    solution.offsets.push_back(offset);
    solution.height = std::max(solution.height, offset + b.size);
  }
  return solution;
}

}  // namespace stowage::packing
