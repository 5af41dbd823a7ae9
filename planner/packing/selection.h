#ifndef STOWAGE_PLANNER_PACKING_SELECTION_H_
#define STOWAGE_PLANNER_PACKING_SELECTION_H_

// Selects the buffers of a problem to pack into a capacity when others may be left out: of the
// sets that fit, one of large value. The others need at most `rest` bytes at any time. This is
// the storage allocation problem (Leonardi, Marchetti-Spaccamela & Vitaletti 2000), a knapsack
// problem over time whose items also need addresses; NP-hard.
//
//   Problem problem{.buffers = {{.id = "a", .lower = 0, .upper = 9, .size = 64},
//                               {.id = "b", .lower = 0, .upper = 9, .size = 64}},
//                   .capacity = 64};
//   const std::vector<double> values = {1, 5};
//   const Selection selection = SelectByValue(problem, values, {});
//   selection.offsets;  // {kNotSelected, 0}
//   selection.value;    // 5
//
// Lagrangian relaxation gives each column of time a price per byte, by subgradient steps (Held,
// Wolfe & Crowder 1974). The prices bound the value of any selection from above, and rank the
// buffers: by value per price of their bytes and time. Buffers are selected in this order, at
// many prices on the way and with random changes. They are packed either at once, each into the
// lowest gap, or after all are selected, by the greedy packer; what then ends above the
// capacity is left out, and the gaps are filled.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

struct SelectionOptions {
  /// The bytes that buffers which are not selected may take at any time, and the largest
  /// single one of them.
  Bytes rest = std::numeric_limits<Bytes>::max();
  Bytes largest_of_rest = std::numeric_limits<Bytes>::max();
  /// Attempts, each of about the time of one greedy packing with little effort.
  int attempts = 200;
};

inline constexpr Bytes kNotSelected = -1;

struct Selection {
  std::vector<Bytes> offsets =
      {};            // one per buffer; kNotSelected for the others
  double value = 0;  // of the selected buffers
  double bound = 0;  // no selection has a greater value
  Bytes excess =
      0;  // the bytes above `rest` that the others take, at most; 0 if they fit
};

/// Selects buffers of `problem`, which passes CheckProblem, has a capacity and no fixed buffer.
/// `values`, one per buffer, are at least 0. Returns the selection with the least excess found,
/// of these the one with the greatest value. Deterministic: ties are broken by index.
/// O(n log n) for each attempt.
Selection SelectByValue(const Problem& problem, std::span<const double> values,
                        const SelectionOptions& options);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_SELECTION_H_
