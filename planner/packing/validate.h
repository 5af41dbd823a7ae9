#ifndef STOWAGE_PLANNER_PACKING_VALIDATE_H_
#define STOWAGE_PLANNER_PACKING_VALIDATE_H_

// Verifies packings, and bounds them from below. It shares no code with the packers: every end,
// overlap and the height are recomputed from the problem and the offsets alone.
//
//   for (const Violation& v : Validate(problem, solution)) Report(v.text);
//   const LowerBound bound = ComputeLowerBound(problem);
//   LiveAt(problem, bound.time);  // the buffers at the bound, largest first

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "planner/packing/problem.h"

namespace stowage::packing {

enum class ViolationKind {
  kBadCount,        // not one offset per buffer; nothing else is checked then
  kNegativeOffset,  // an offset below 0
  kOverflow,        // offset + size does not fit 64 bits
  kMisaligned,      // an offset that is no multiple of the alignment
  kMovedFixed,      // a fixed buffer is not where it was fixed
  kOverlap,         // two buffers share a byte while both live
  kWrongHeight,     // the height is not the largest end
  kOverCapacity,    // the largest end is above the problem's capacity
};

struct Violation {
  ViolationKind kind;
  std::vector<size_t> buffers;  // their indices, ascending
  std::string text;             // one sentence naming buffers, times and bytes
};

/// At most `limit` (>= 1) violations of `solution`, those of single buffers first; empty exactly if
/// it is valid. Each overlap reported is real; if there are several, some may be left out.
/// Precondition: CheckProblem(problem) is ok. O(n log n).
std::vector<Violation> Validate(const Problem& problem,
                                const Solution& solution, size_t limit = 16);

/// A lower bound on the height. At every time the live buffers need disjoint bytes, so the height is
/// at least the sum of their sizes; it is also at least the end of every fixed buffer. A packing
/// that reaches the bound is optimal, and the live buffers at its time are the proof. The bound
/// ignores alignment, which can only raise the height.
struct LowerBound {
  Bytes bytes = 0;  // no solution has a smaller height
  Bytes live = 0;   // the largest sum of live sizes at any time
  Time time = 0;    // the earliest time at which `live` bytes live
  // The buffer whose fixed end is `bytes`, when that is above `live`.
  std::optional<size_t> fixed;
};

/// The lower bound of a problem that passes CheckProblem. O(n log n).
LowerBound ComputeLowerBound(const Problem& problem);

/// The indices of the buffers alive at `time`, largest first, ties by index.
std::vector<size_t> LiveAt(const Problem& problem, Time time);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_VALIDATE_H_
