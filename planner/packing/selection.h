#ifndef STOWAGE_PLANNER_PACKING_SELECTION_H_
#define STOWAGE_PLANNER_PACKING_SELECTION_H_

// Selects buffers of a problem to pack into a capacity, such that their total value is
// large. The live buffers that are not selected must have a total size of at most
// SelectionOptions::rest bytes at any time. This is the storage allocation problem
// (Leonardi, Marchetti-Spaccamela & Vitaletti 2000), a knapsack problem over time whose
// items also need addresses. It is NP-hard.
//
//   Problem problem{.buffers = {{.id = "a", .lower = 0, .upper = 9, .size = 64},
//                               {.id = "b", .lower = 0, .upper = 9, .size = 64}},
//                   .capacity = 64};
//   const std::vector<double> values = {1, 5};
//   const Selection selection = SelectByValue(problem, values, {});
//   selection.offsets;  // {kNotSelected, 0}
//   selection.value;    // 5
//
// Lagrangian relaxation assigns a multiplier, a price per byte, to each column of time, by
// subgradient steps (Held, Wolfe & Crowder 1974). The prices bound the value of any
// selection from above. They also rank the buffers: by value per total price of their bytes
// over time. Buffers are selected in this order, for many intermediate prices and with
// random changes. Each order is packed in two ways. The first places each buffer in the
// lowest gap when it is selected. The second selects buffers as long as their total size
// fits the capacity at every time, packs them with the greedy packer, drops the buffers
// that end above the capacity, and fills the gaps.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

struct SelectionOptions {
  /// The maximum total size of the live buffers that are not selected, at any time, and the
  /// maximum size of one buffer that is not selected.
  Bytes rest = std::numeric_limits<Bytes>::max();
  Bytes largest_of_rest = std::numeric_limits<Bytes>::max();
  /// The number of attempts. An attempt takes about as long as one greedy packing with
  /// little effort. Problems of more than 400 buffers get fewer attempts.
  int attempts = 200;
};

inline constexpr Bytes kNotSelected = -1;

struct Selection {
  std::vector<Bytes> offsets =
      {};            // The offset of each buffer, or kNotSelected.
  double value = 0;  // The total value of the selected buffers.
  double bound = 0;  // No selection has a greater value.
  Bytes excess =
      0;  // The maximum excess over `rest` or `largest_of_rest`. 0 if none.
};

/// Selects buffers of `problem`. Requires that `problem` passes CheckProblem, has a
/// capacity and has no fixed buffers, and that `values` has one value per buffer, each at
/// least 0. Returns the selection with the smallest excess that was found and, among these,
/// the one with the greatest value. Deterministic: ties are broken by index. Each attempt
/// is O(n log n).
Selection SelectByValue(const Problem& problem, std::span<const double> values,
                        const SelectionOptions& options);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_SELECTION_H_
