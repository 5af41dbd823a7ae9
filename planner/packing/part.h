#ifndef STOWAGE_PLANNER_PACKING_PART_H_
#define STOWAGE_PLANNER_PACKING_PART_H_

// Divides packing problems into parts. A part is the input of the greedy packer
// (planner/packing/greedy.h). It is a list of items (buffers) in columns of time, which are placed
// above a floor. The whole problem is a part. The independent ranges of columns that PackDivided
// finds, and the ranges of columns that the greedy packer repacks, are also parts.
//
//   Part part{.columns = 2};
//   part.items.push_back({.range = {0, 1}, .size = 64});
//   part.items.push_back({.range = {1, 2}, .size = 32});
//   PackPart(part, 64, kGreedyWork, {}).height;  // 64: both items are at offset 0

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

// Columns compress time. The buffers that are live after a birth (the begin of a lifetime) and
// before the next death are a maximal live set. The set of live buffers at any other time is a
// subset of a maximal one. There is one column per maximal set. Two buffers are therefore live at
// the same time exactly if they share a column, and the number of columns is at most the number of
// buffers.
//
//   bbbbb                     columns: {a, b} {b, c}
//   aa ccc                    a [0, 1)   b [0, 2)   c [1, 2)
//
// Buffers of size 0 do not conflict with any buffer, and have the empty range [0, 0).

/// A half-open range of columns.
struct ColumnRange {
  int32_t begin = 0;
  int32_t end = 0;
};

struct Columns {
  int32_t count = 0;
  std::vector<ColumnRange> ranges;  // One per buffer.
};

/// Returns the columns of a problem that passes CheckProblem. O(n log n).
Columns ComputeColumns(const Problem& problem);

/// A buffer to pack. Its size must not be 0. Sizes and offsets are in bytes.
struct Item {
  /// The value of `offset` for an item whose offset is not fixed.
  static constexpr Bytes kFree = -1;

  ColumnRange range;
  Bytes size = 0;
  Bytes alignment = 1;
  Bytes offset = kFree;  // The fixed offset, or kFree.
  // The lifetime, [lower, upper).
  Time lower = 0;
  Time upper = 0;
};

/// Items in columns [0, columns). All offsets are at least `floor`.
struct Part {
  std::vector<Item> items;
  int32_t columns = 0;
  Bytes floor = 0;
};

struct PartPacking {
  std::vector<Bytes> offsets;  // One per item.
  Bytes height = 0;
  std::string order;  // See GreedyPacking::order.
};

/// Returns whether the item is live in every column of the part.
bool IsLasting(const Part& part, const Item& item);

/// Returns whether `a` must be placed before `b` to reduce padding. Larger alignments come first.
/// Among equal alignments, sizes that are multiples of the alignment come first.
bool WastesLess(const Item& a, const Item& b);

/// Packs all items of a part like PackPart, but divides the part first, unless an item has a fixed
/// offset. If only items that are live in every column cross from one column to the next, the two
/// sides are packed independently. Equal sides, such as the iterations of an unrolled loop, are
/// packed once. Each side gets a share of `work` in proportion to its number of items. Takes
/// O(n log n) time plus time in proportion to `work`.
PartPacking PackDivided(const Part& part, Bytes target, int64_t work,
                        Deadline deadline);

/// Packs a problem that passes CheckProblem without reusing any address. Visits the buffers in the
/// order of the problem and places each above the previous one, at addresses that no other buffer
/// has. Fixed buffers keep their offsets. This packing is the baseline for the packings of other
/// packers. O(n log n).
Solution PackLinearly(const Problem& problem);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_PART_H_
