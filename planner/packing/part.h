#ifndef STOWAGE_PLANNER_PACKING_PART_H_
#define STOWAGE_PLANNER_PACKING_PART_H_

// A part is the input of the greedy packer: items in columns of time, above a floor. The
// whole problem is a part, and so are the independent ranges of columns that PackDivided
// finds, and the windows that are repacked (planner/packing/greedy.h).
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

// Columns compress time. The buffers live between a birth and the next death are a maximal
// live set; every other live set is a subset of one. There is one column for each maximal
// set, so two buffers conflict exactly if they share a column, and there are at most as many
// columns as buffers.
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

/// A buffer to pack; never of size zero. Sizes and offsets are in bytes.
struct Item {
  /// The offset of an item that may go anywhere.
  static constexpr Bytes kFree = -1;

  ColumnRange range;
  Bytes size = 0;
  Bytes alignment = 1;
  Bytes offset = kFree;  // or where it is fixed
  Time lower = 0;
  Time upper = 0;
};

/// Items in columns from 0 on, all above `floor`.
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

/// Whether the item is live in every column of the part.
bool IsLasting(const Part& part, const Item& item);

/// Orders items by the padding that they cause: the coarsest alignment first, and sizes that
/// are multiples of it before others.
bool WastesLess(const Item& a, const Item& b);

/// Packs all items of a part as PackPart does, but divided: if only items that are live in
/// every column cross from one column to the next, the two sides are packed independently,
/// and equal sides, such as the iterations of an unrolled loop, once. Each side gets its
/// share of `work` by items. O(n log n), and `work`.
PartPacking PackDivided(const Part& part, Bytes target, int64_t work,
                        Deadline deadline);

/// The baseline without reuse: packs a problem that passes CheckProblem in the order of the
/// buffers, each at addresses that no other buffer has, between and above the fixed ones.
/// Savings are relative to it. O(n log n).
Solution PackLinearly(const Problem& problem);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_PART_H_
