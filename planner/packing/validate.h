#ifndef STOWAGE_PLANNER_PACKING_VALIDATE_H_
#define STOWAGE_PLANNER_PACKING_VALIDATE_H_

// Verifies solutions of packing problems (planner/packing/problem.h) and computes a lower bound of
// their height. The verifier shares no code with the packers: it recomputes every end, every
// overlap and the height from only the problem and the offsets.
//
//   for (const Violation& v : Validate(problem, solution)) Report(v.text);
//   const LowerBound bound = ComputeLowerBound(problem);
//   LiveAt(problem, bound.time);  // the live buffers at this time, largest first

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "planner/packing/problem.h"

namespace stowage::packing {

enum class ViolationKind {
  kBadCount,        // Wrong number of offsets. Nothing else is checked.
  kNegativeOffset,  // An offset is below 0.
  kOverflow,        // offset + size does not fit 64 bits.
  kMisaligned,      // An offset is not a multiple of the alignment.
  kMovedFixed,      // A fixed buffer is not at its fixed offset.
  kOverlap,         // Two buffers share a byte and are live at the same time.
  kWrongHeight,     // The height is not the largest end.
  kOverCapacity,    // The largest end exceeds the capacity.
};

struct Violation {
  ViolationKind kind;
  std::vector<size_t> buffers;  // Indices in ascending order.
  /// One sentence that names buffers, times and bytes.
  std::string text;
};

/// Returns at most `limit` violations of `solution`. The result is empty exactly if `solution` is
/// valid. Violations that concern one buffer come first. Not every overlap is reported if several
/// buffers overlap. Requires `limit >= 1` and that `problem` passes CheckProblem. O(n log n).
std::vector<Violation> Validate(const Problem& problem,
                                const Solution& solution, size_t limit = 16);

/// A lower bound of the height. At every time the live buffers need disjoint bytes, so the height
/// is at least the sum of their sizes. The height is also at least the end of every fixed buffer. A
/// packing that reaches the bound is optimal. The live buffers at `time`, or the buffer `fixed`,
/// prove the bound. The bound ignores alignment, which can only increase the height.
struct LowerBound {
  Bytes bytes = 0;  // No solution has a smaller height.
  Bytes live = 0;   // The largest sum of live sizes at any time.
  Time time = 0;    // The earliest time with this sum.
  // The fixed buffer whose end is `bytes`. Set only if `bytes` exceeds `live`.
  std::optional<size_t> fixed;
};

/// Returns the lower bound of a problem that passes CheckProblem. O(n log n).
LowerBound ComputeLowerBound(const Problem& problem);

/// Returns the indices of the buffers that are live at `time`, largest first. Ties are
/// broken by index.
std::vector<size_t> LiveAt(const Problem& problem, Time time);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_VALIDATE_H_
