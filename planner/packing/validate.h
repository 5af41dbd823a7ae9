#ifndef STOWAGE_PLANNER_PACKING_VALIDATE_H_
#define STOWAGE_PLANNER_PACKING_VALIDATE_H_

// The judge of packings. It shares no helper with the packers and believes
// nothing they say: it recomputes every end, every overlap and the height from
// the problem and the offsets alone.
//
//   for (const Violation& v : Validate(problem, solution)) Report(v.text);

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "planner/packing/problem.h"

namespace stowage::packing {

enum class ViolationKind {
  kBadCount,        // not one offset per buffer; nothing else is judged then
  kNegativeOffset,  // an offset below 0
  kOverflow,        // offset + size does not fit 64 bits
  kMisaligned,      // an offset that is no multiple of the alignment
  kMovedFixed,      // a fixed buffer is not where it was fixed
  kOverlap,         // two buffers share a byte while both live
  kWrongHeight,     // the height is not the largest end
  kOverCapacity,    // the largest end is above the problem's capacity
};

/// "overlap", "misaligned", ...
const char* ViolationKindName(ViolationKind kind);

struct Violation {
  ViolationKind kind;
  std::vector<size_t> buffers;  // the indices concerned, ascending
  std::string text;             // one sentence naming buffers, times and bytes
};

/// What is wrong with `solution`, at most `limit` (>= 1) violations, those of
/// single buffers first; empty exactly when the solution is good. Each overlap
/// reported is real; when there are several, some may be left out.
/// Precondition: CheckProblem(problem) is ok. O(n log n).
std::vector<Violation> Validate(const Problem& problem,
                                const Solution& solution, size_t limit = 16);

// What no packing can beat: at every time the live buffers lie side by side, so
// the height is at least the sum of their sizes; and it is at least the end of
// every buffer whose placement is fixed. A packing that reaches the bound is
// optimal, and the live set at the bound's time is the proof.
//
// The bound is computed by a sweep of its own, so that a packer's mistake
// cannot hide in it. It ignores alignment, which can only raise the height.
//
//   const LowerBound bound = ComputeLowerBound(problem);
//   LiveAt(problem, bound.time);  // who fills it, largest first

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
