#ifndef STOWAGE_PLANNER_PACKING_SELECTION_H_
#define STOWAGE_PLANNER_PACKING_SELECTION_H_

// Selects buffers of a problem (planner/packing/problem.h) and packs them into the capacity, such
// that the total value of the selected buffers is large. At any time, the live buffers that are not
// selected must have a total size of at most SelectionOptions::rest bytes. This is the storage
// allocation problem (Leonardi, Marchetti-Spaccamela & Vitaletti 2000), a knapsack problem over
// time whose items also need addresses. It is NP-hard.
//
//   Problem problem{.buffers = {{.id = "a", .lower = 0, .upper = 9, .size = 64},
//                               {.id = "b", .lower = 0, .upper = 9, .size = 64}},
//                   .capacity = 64};
//   const std::vector<double> values = {1, 5};
//   const Selection selection = SelectByValue(problem, values, {});
//   selection.offsets;  // {kNotSelected, 0}
//   selection.value;    // 5
//
// Lagrangian relaxation assigns a multiplier, a price per byte, to each column of time
// (planner/packing/part.h), by subgradient steps (Held, Wolfe & Crowder 1974). The prices give an
// upper bound on the value of any selection. They also rank the buffers: by value divided by the
// total price of the buffer's bytes over time. Several orders are tried, which result from
// intermediate prices and from random changes of the ranks. Each order is packed by two methods.
// The first method visits the buffers in order and places each in the lowest gap, if that is within
// the capacity. The second method selects buffers in order as long as their total size fits the
// capacity at every time, packs them with the greedy packer, drops the buffers that end above the
// capacity, and fills the gaps with other buffers.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

struct SelectionOptions {
  /// The maximum total size, at any time, of the live buffers that are not selected.
  Bytes rest = std::numeric_limits<Bytes>::max();
  /// The maximum size of one buffer that is not selected.
  Bytes largest_of_rest = std::numeric_limits<Bytes>::max();
  /// The maximum number of orders that are tried. Four are always tried. Each takes about as long
  /// as one greedy packing with little effort. Problems of more than 400 buffers get fewer
  /// attempts.
  int attempts = 200;
};

inline constexpr Bytes kNotSelected = -1;

struct Selection {
  std::vector<Bytes> offsets =
      {};            // The offset of each buffer, or kNotSelected.
  double value = 0;  // The total value of the selected buffers.
  double bound = 0;  // No selection with an excess of 0 has a greater value.
  /// The number of bytes by which the buffers that are not selected exceed `rest` or
  /// `largest_of_rest`, whichever is more. 0 if they exceed neither.
  Bytes excess = 0;
};

/// Selects buffers of `problem`. Requires that `problem` passes CheckProblem, has a capacity and
/// has no fixed buffers. `values` must have one value per buffer, each at least 0. Returns the
/// selection with the smallest excess that was found and, among several, one with the greatest
/// value. Deterministic: ties are broken by index. Each attempt takes time in proportion to the
/// number of buffers times the number of columns in the worst case.
Selection SelectByValue(const Problem& problem, std::span<const double> values,
                        const SelectionOptions& options);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_SELECTION_H_
