#ifndef STOWAGE_PLANNER_PACKING_COLUMNS_H_
#define STOWAGE_PLANNER_PACKING_COLUMNS_H_

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

#include <cstdint>
#include <vector>

#include "planner/packing/problem.h"

namespace stowage::packing {

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

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_COLUMNS_H_
