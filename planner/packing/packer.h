#ifndef STOWAGE_PLANNER_PACKING_PACKER_H_
#define STOWAGE_PLANNER_PACKING_PACKER_H_

// The entry point to all packers: checks the problem, packs it, reports how good the packing
// is, and explains a capacity that is exceeded.
//
//   STOWAGE_ASSIGN_OR_RETURN(Packing packing, Pack(problem));
//   packing.solution.offsets[3];  // of buffer 3
//   packing.optimal;              // no packing is lower
//
// Equal problems give equal packings on every machine, unless a deadline passes.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

enum class Packer {
  kLinear,  // no reuse: the baseline (planner/packing/part.h)
  kGreedy,  // lowest gap first, in several orders (planner/packing/greedy.h)
  kBest,  // greedy, then a complete search of some seconds (planner/packing/best.h)
};

/// "linear", "greedy", "best".
const char* PackerName(Packer packer);

/// The packer of that name; error kInvalidArgument listing the names.
Result<Packer> ParsePacker(std::string_view name);

struct PackOptions {
  Packer packer = Packer::kGreedy;
  Deadline deadline = {};  // of kBest
};

struct Packing {
  Solution solution;
  // No packing is lower: of planner/packing/validate.h, or higher if kBest has refuted more.
  Bytes lower_bound = 0;
  bool optimal = false;  // the height is the lower bound
  std::string packer;    // "linear", "greedy: pressure", ...
};

/// Packs `problem`. kBest is never higher than kGreedy unless its deadline passes; it stops
/// at the capacity, or without one at the lower bound. Errors: kInvalidArgument of
/// CheckProblem; kBudgetTooSmall if the packing exceeds the capacity, with the capacity, the
/// height, the lower bound and, if it is proven that no packing fits, the buffers at fault.
Result<Packing> Pack(const Problem& problem, const PackOptions& options = {});

struct PackAttempt {
  Packing packing;
  std::optional<Error> refusal;  // if it exceeds the capacity
};

/// The same, but returns the packing even if it exceeds the capacity.
Result<PackAttempt> TryPack(const Problem& problem,
                            const PackOptions& options = {});

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_PACKER_H_
