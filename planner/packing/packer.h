#ifndef STOWAGE_PLANNER_PACKING_PACKER_H_
#define STOWAGE_PLANNER_PACKING_PACKER_H_

// The entry point to all packers. Pack checks a problem (planner/packing/problem.h) and packs it,
// reports how close the packing is to the lower bound, and explains why a capacity is exceeded.
//
//   STOWAGE_ASSIGN_OR_RETURN(Packing packing, Pack(problem));
//   packing.solution.offsets[3];  // the offset of buffer 3
//   packing.optimal;              // true if no packing is lower
//
// Equal problems give equal packings on every machine, unless a deadline passes.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

enum class Packer {
  kLinear,  // The baseline without reuse (planner/packing/part.h).
  kGreedy,  // Lowest gap, in several orders (planner/packing/greedy.h).
  kBest,    // Greedy, then a search of some seconds (planner/packing/best.h).
};

/// Returns "linear", "greedy" or "best".
const char* PackerName(Packer packer);

/// Returns the packer with this name. Returns kInvalidArgument, listing the names, if
/// `name` is not one of them.
Result<Packer> ParsePacker(std::string_view name);

struct PackOptions {
  Packer packer = Packer::kGreedy;
  Deadline deadline = {};  // Used by kBest.
};

struct Packing {
  Solution solution;
  // No packing is lower than this. The bound of ComputeLowerBound (planner/packing/validate.h), or
  // a higher bound if kBest has proven one.
  Bytes lower_bound = 0;
  bool optimal = false;  // True if the height equals the lower bound.
  std::string packer;    // "linear", "greedy: pressure", ...
};

/// Packs `problem`. The packing of kBest is never higher than the packing of kGreedy,
/// unless the deadline passes. kBest stops at the capacity or, without a capacity, at the
/// lower bound.
///
/// Propagates errors of CheckProblem. Returns kBudgetTooSmall if the packing exceeds the
/// capacity. The message contains the capacity, the height and the lower bound. If it is proven
/// that no packing fits, the message also names buffers that cannot fit together.
Result<Packing> Pack(const Problem& problem, const PackOptions& options = {});

struct PackAttempt {
  Packing packing;
  std::optional<Error> refusal;  // Set if the packing exceeds the capacity.
};

/// Packs `problem` like Pack, but returns the packing even if it exceeds the capacity.
Result<PackAttempt> TryPack(const Problem& problem,
                            const PackOptions& options = {});

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_PACKER_H_
