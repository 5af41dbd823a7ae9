#ifndef STOWAGE_PLANNER_PACKING_PART_H_
#define STOWAGE_PLANNER_PACKING_PART_H_

// What the greedy packer packs at once: items in columns of time, above a floor. The
// whole problem is a part, and so is each of the stretches it is divided into
// (planner/packing/part.h) and each window that is packed anew
// (planner/packing/pack_part.h).
//
//   Part part{.columns = 2};
//   part.items.push_back({.range = {0, 1}, .size = 64});
//   part.items.push_back({.range = {1, 2}, .size = 32});
//   PackPart(part, 64, kGreedyWork, {}).height;  // 64: both at the floor

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

// Time, compressed to what matters to a packer. Between a birth and the next
// death lies a largest set of buffers alive together; every other live set is
// part of one of these. There is one column for each, so two buffers conflict
// exactly when they share a column, and there are at most as many columns as
// buffers.
//
//   bbbbb                     columns: {a, b} {b, c}
//   aa ccc                    a [0, 1)   b [0, 2)   c [1, 2)
//
// Buffers of size zero conflict with nothing and get the empty range [0, 0).

/// A half-open range of columns.
struct ColumnRange {
  int32_t begin = 0;
  int32_t end = 0;
};

struct Columns {
  int32_t count = 0;
  std::vector<ColumnRange> ranges;  // one per buffer
};

/// The columns of a problem that passes CheckProblem. O(n log n).
Columns ComputeColumns(const Problem& problem);

/// A buffer as it is packed; never of size zero. Sizes and offsets are in bytes.
struct Item {
  /// The offset of an item that may go anywhere.
  static constexpr Bytes kFree = -1;

  ColumnRange range;
  Bytes size = 0;
  Bytes alignment = 1;
  Bytes offset = kFree;  // given when its placement is fixed
  Time lower = 0;
  Time upper = 0;
};

/// Items that are packed by themselves, above a floor, in columns from 0 on.
struct Part {
  std::vector<Item> items;
  int32_t columns = 0;
  Bytes floor = 0;
};

struct PartPacking {
  std::vector<Bytes> offsets;  // of the items
  Bytes height = 0;
  std::string order;  // as GreedyPacking::order
};

/// Whether the item is alive in every column of the part.
bool IsLasting(const Part& part, const Item& item);

/// Which item goes first where all that matters is padding: the coarsest
/// alignment, and what fills its units before what does not.
bool WastesLess(const Item& a, const Item& b);

// Takes parts apart before they are packed. Where only what lasts reaches from one
// column to the next, the stretches on the two sides are packed on their own, and
// equal stretches, as the steps of an unrolled loop are, once.

/// Packs all items of a part as PackPart does, its stretches apart, to which `work`
/// is dealt by their share of the items. O(n log n), and `work`.
PartPacking PackDivided(const Part& part, Bytes target, int64_t work,
                        Deadline deadline);

// The baseline packer: no reuse at all. Every buffer gets bytes of its own, one
// after the other, in the gaps between the fixed buffers and above them. What
// the other packers save is counted from here, and when a bug is suspected in a
// plan, packing linearly tells whether reuse has a part in it.

/// Packs a problem that passes CheckProblem, in the order of the buffers; no
/// buffer shares a byte with another that is not fixed. O(n log n).
Solution PackLinearly(const Problem& problem);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_PART_H_
