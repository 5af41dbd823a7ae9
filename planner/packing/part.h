#ifndef STOWAGE_PLANNER_PACKING_PART_H_
#define STOWAGE_PLANNER_PACKING_PART_H_

// What the greedy packer packs at once: items in columns of time, above a floor. The
// whole problem is a part, and so is each of the stretches it is divided into
// (planner/packing/divide.h) and each window that is packed anew
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
#include "planner/packing/columns.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

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

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_PART_H_
