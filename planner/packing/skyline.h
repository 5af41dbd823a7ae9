#ifndef STOWAGE_PLANNER_PACKING_SKYLINE_H_
#define STOWAGE_PLANNER_PACKING_SKYLINE_H_

// The top of what stands in each column of time. A buffer that is put on top of
// it all, as in a game where blocks only fall, finds its place in O(log n): no
// gap below is ever looked for. Wherever buffers nest, as those of a training
// step do, the longest-lived go first and nothing is lost by it.
//
//   Skyline skyline(columns.count);
//   const Bytes at = AlignUp(skyline.Top(range), alignment);
//   skyline.Raise(range, at + size);

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/columns.h"

namespace stowage::packing {

class Skyline {
 public:
  /// Zero over columns [0, columns).
  explicit Skyline(int32_t columns);

  /// The highest top in `range`, which is not empty. O(log n).
  Bytes Top(ColumnRange range) const;

  /// Makes `top` the top in all of `range`; at least Top(range). O(log n).
  void Raise(ColumnRange range, Bytes top);

 private:
  // Of a node of the tree over columns: the highest top inside it, and what it
  // has been raised to as a whole.
  struct Node {
    Bytes highest = 0;
    Bytes raised = 0;
  };
  uint32_t leaves_ = 1;      // a power of two
  std::vector<Node> nodes_;  // a heap: the children of k are 2k and 2k + 1
};

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_SKYLINE_H_
