#ifndef STOWAGE_PLANNER_PACKING_CSV_H_
#define STOWAGE_PLANNER_PACKING_CSV_H_

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

#include <string>
#include <string_view>

#include "base/result.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

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

#endif  // STOWAGE_PLANNER_PACKING_CSV_H_
