#ifndef STOWAGE_PLANNER_PACKING_PROBLEM_H_
#define STOWAGE_PLANNER_PACKING_PROBLEM_H_

// Defines the packing problem, without reference to graphs or tensors. A problem is a list of
// buffers, each with a lifetime, a size and an alignment. A solution gives every buffer an offset,
// such that no two buffers that are live at the same time share a byte. The goal is a small
// height, which is the largest end (offset + size) of a buffer. This problem is known as dynamic
// storage allocation, and is NP-hard in general.
//
//   address ^                     Problem problem{.buffers = {
//     3 |  bbbbb                      {.id = "a", .lower = 0, .upper = 2,
//     2 |  bbbbb                       .size = 1},
//     1 |  aa ccc                     {.id = "b", .lower = 0, .upper = 5,
//       +--------> time                .size = 2},
//          01234                      {.id = "c", .lower = 2, .upper = 5,
//                                      .size = 1}}};
//
// Lifetimes are half-open: a buffer with the lifetime [0, 2) is dead at time 2, so "a" and
// "c" may share bytes. A buffer of size 0 occupies no bytes and conflicts with no other buffer,
// but still gets an aligned offset. A buffer with `offset` is fixed: its place is already decided,
// for example because it contains the weights of another program. A packer keeps this offset and
// packs the other buffers around it.

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

/// A position in the schedule. It has no unit: only the order of times matters.
using Time = int64_t;

struct Buffer {
  std::string id = {};  // Unique unless empty.
  /// The first time at which the buffer is live.
  Time lower = 0;
  Time upper = 0;                    // The first time at which it is dead.
  Bytes size = 0;                    // May be 0.
  Bytes alignment = 1;               // The offset is a multiple of this.
  std::optional<Bytes> offset = {};  // Set if the placement is fixed.
};

struct Problem {
  std::vector<Buffer> buffers = {};
  std::optional<Bytes> capacity =
      {};  // The maximum height. Without it, the height is unlimited.
};

struct Solution {
  std::vector<Bytes> offsets =
      {};            // One per buffer, in the order of the problem.
  Bytes height = 0;  // The largest offset + size, or 0 without buffers.
};

/// Checks that `problem` is well formed. If a problem passes, the arithmetic of packers
/// cannot overflow. Returns kInvalidArgument, naming the buffer, in these cases:
///
///   - `upper <= lower`, a negative size, or an alignment below 1
///   - a fixed offset that is negative or misaligned
///   - an id that is used twice
///   - two fixed buffers that overlap in time and address
///   - sizes and fixed offsets whose sum, including padding, does not fit 64 bits
///
/// Also returns kInvalidArgument for a negative capacity. O(n log n).
Status CheckProblem(const Problem& problem);

/// Returns the name of a buffer in messages: its id in quotes, or `#7` if the id is empty.
std::string BufferName(const Problem& problem, size_t index);

// A Deadline is a point in time after which a packer stops searching and returns the best packing
// that it has found. The results of a packer depend on the clock only if the deadline passes.
//
//   const Deadline deadline = Clock::now() + std::chrono::seconds(5);
//   if (IsPast(deadline)) return best;

using Clock = std::chrono::steady_clock;
using Deadline = std::optional<Clock::time_point>;

inline bool IsPast(const Deadline& deadline) {
  return deadline && Clock::now() >= *deadline;
}

// Reads and writes packing problems and packings as CSV, so that any planner can be
// compared with Stowage on the same instances:
//
//   id,lower,upper,size,alignment,offset
//   weights,0,9,4096,64,0
//   h1,2,7,1024,64,
//   "loss, scaled",6,8,4,4,
//
// The header names the columns, in any order. The columns id, lower, upper and size are
// required. The columns alignment (default 1) and offset (default: not fixed) can be
// omitted or empty. Lifetimes are half-open, [lower, upper). An id with a comma, a quote or
// a line break is written in double quotes, with quotes doubled. Lines end in LF or CRLF.
// Empty lines are skipped.

/// Returns the problem in `text`. Buffers with an offset are fixed. Returns kInvalidArgument,
/// naming the line and, for an invalid field, the column, in these cases:
///
///   - The header is missing, lacks a required column, or has an unknown or repeated column.
///   - A line is malformed.
///   - A number is invalid or out of range.
///   - A row violates a rule of CheckProblem that concerns only this row or its id.
///
/// Fixed buffers that overlap and sums that do not fit 64 bits are not detected here, but by
/// CheckProblem.
Result<Problem> ParseProblemCsv(std::string_view text);

struct PackedProblem {
  Problem problem;  // No offset is fixed.
  Solution solution;
};

/// Returns the packing in `text`, which Validate (planner/packing/validate.h) can check. Offsets
/// are the solution, not part of the problem. The height is the largest end, or the largest
/// representable number if an end does not fit 64 bits. Returns kInvalidArgument in the cases of
/// ParseProblemCsv, and if a row lacks an offset. An offset may have any value that fits 64 bits.
Result<PackedProblem> ParsePackingCsv(std::string_view text);

/// Returns a problem as CSV, with all six columns and one row per buffer, in order. Parsing the
/// text of a valid problem returns an equal problem, except for the capacity, which has no column.
std::string FormatProblemCsv(const Problem& problem);

/// Returns a problem as CSV with the offsets of `solution` in the column offset. `solution` must
/// have one offset per buffer.
std::string FormatPackingCsv(const Problem& problem, const Solution& solution);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_PROBLEM_H_
