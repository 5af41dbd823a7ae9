#ifndef STOWAGE_PLANNER_PACKING_PROBLEM_H_
#define STOWAGE_PLANNER_PACKING_PROBLEM_H_

// The packing problem by itself, free of graphs and tensors: buffers with a
// lifetime, a size and an alignment; find every buffer an offset so that no two
// that live at the same time share a byte, and the largest end (the height) is
// small. This is dynamic storage allocation, NP-hard in general.
//
//   address ^                     Problem problem{.buffers = {
//     3 |  bbbbb                      {.id = "a", .lower = 0, .upper = 2,
//     2 |  bbbbb                       .size = 1},
//     1 |  aa ccc                     {.id = "b", .lower = 0, .upper = 5,
//       +--------> time                .size = 2},
//          01234                      {.id = "c", .lower = 2, .upper = 5,
//                                      .size = 1}}};
//
// Lifetimes are half-open: a buffer with [0, 2) is dead at time 2, so "a" and
// "c" may share their bytes. A buffer of size zero occupies nothing and
// conflicts with nothing, but still gets an aligned offset. A buffer with
// `offset` is already placed (the weights of another program, say): a packer
// leaves it there and packs around it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage::packing {

/// A position in the schedule. It has no unit; only its order matters.
using Time = int64_t;

struct Buffer {
  std::string id = {};               // unique unless empty
  Time lower = 0;                    // first time at which it lives
  Time upper = 0;                    // first time at which it no longer lives
  Bytes size = 0;                    // may be zero
  Bytes alignment = 1;               // its offset is a multiple of this
  std::optional<Bytes> offset = {};  // given when its placement is fixed
};

struct Problem {
  std::vector<Buffer> buffers = {};
  std::optional<Bytes> capacity =
      {};  // the largest height that will do, if any
};

struct Solution {
  std::vector<Bytes> offsets =
      {};            // one per buffer, in the order of the problem
  Bytes height = 0;  // the largest offset + size; 0 without buffers
};

/// Error kInvalidArgument naming the first buffer that is malformed:
/// upper <= lower, negative size, alignment below 1, a fixed offset that is
/// negative or misaligned, an id used twice, two fixed placements that overlap
/// in time and address, sizes with padding whose sum does not fit 64 bits; or a
/// negative capacity. On a problem that passes, no packer can overflow.
/// O(n log n).
Status CheckProblem(const Problem& problem);

/// How messages call a buffer: its id in quotes, or `#7` when it has none.
std::string BufferName(const Problem& problem, size_t index);

// A point in time after which a packer looks no further and returns the best it
// has. It only ever cuts off: with no deadline, or one that is not reached,
// results do not depend on the clock.
//
//   const Deadline deadline = Clock::now() + std::chrono::seconds(5);
//   if (IsPast(deadline)) return best;

using Clock = std::chrono::steady_clock;
using Deadline = std::optional<Clock::time_point>;

inline bool IsPast(const Deadline& deadline) {
  return deadline && Clock::now() >= *deadline;
}

// Packing problems and packings as text, so that any planner can be compared
// with ours on the same instances:
//
//   id,lower,upper,size,alignment,offset
//   weights,0,9,4096,64,0
//   h1,2,7,1024,64,
//   "loss, scaled",6,8,4,4,
//
// The header names the columns, in any order; id, lower, upper and size must be
// there, alignment (1) and offset (not fixed) may be left out or empty.
// Lifetimes are half-open [lower, upper). An id with a comma, a quote or a line
// break stands in double quotes, with quotes doubled. Lines end in LF or CRLF;
// empty lines are passed over.

/// The problem that `text` holds; an offset is a fixed placement. Error
/// kInvalidArgument naming line and column when a line is not well formed, a
/// number is none or does not fit, or a row breaks a rule of CheckProblem that
/// concerns it alone or its id. Offsets that overlap are left to CheckProblem.
Result<Problem> ParseProblemCsv(std::string_view text);

struct PackedProblem {
  Problem problem;  // no offset fixed
  Solution solution;
};

/// The packing that `text` holds, for Validate: every row has its offset, and
/// none counts as fixed. Errors as above; an offset may be out of place, but
/// not missing.
Result<PackedProblem> ParsePackingCsv(std::string_view text);

/// The text of a problem, six columns, rows in order. Parsing it gives back an
/// equal problem, save for the capacity, which has no column.
std::string FormatProblemCsv(const Problem& problem);

/// The same with the offsets of a solution that has one for each buffer.
std::string FormatPackingCsv(const Problem& problem, const Solution& solution);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_PROBLEM_H_
