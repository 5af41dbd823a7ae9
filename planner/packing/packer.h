#ifndef STOWAGE_PLANNER_PACKING_PACKER_H_
#define STOWAGE_PLANNER_PACKING_PACKER_H_

// The one door to all packers: check the problem, pack it, say how good the
// packing is, and, when a capacity is given and missed, say why.
//
//   STOWAGE_ASSIGN_OR_RETURN(Packing packing, Pack(problem));
//   packing.solution.offsets[3];  // where buffer 3 stands
//   packing.optimal;              // no packing is lower
//
// Equal problems give equal packings, on every machine, unless a deadline cuts
// the best packer off.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

enum class Packer {
  kLinear,  // no reuse: the baseline (planner/packing/part.h)
  kGreedy,  // lowest gap first, in several orders (planner/packing/restarts.h)
  kBest,  // greedy, then a complete search for seconds (planner/packing/best.h)
};

/// "linear", "greedy", "best".
const char* PackerName(Packer packer);

/// The packer of that name; error kInvalidArgument listing the names.
Result<Packer> ParsePacker(std::string_view name);

struct PackOptions {
  Packer packer = Packer::kGreedy;
  Deadline deadline = {};  // when kBest is to look no further, if ever
};

struct Packing {
  Solution solution;
  Bytes lower_bound =
      0;  // no packing is lower: see planner/packing/validate.h; or
          // higher, when kBest has searched all below in vain
  bool optimal = false;  // the height is the lower bound
  std::string packer;    // "linear", "greedy: pressure", ... which one won
};

/// Packs `problem`. kBest is never higher than kGreedy unless its deadline passes;
/// with a capacity it is content to fit it, without one it looks for the lowest
/// packing. Errors:
/// kInvalidArgument when CheckProblem finds fault; kBudgetTooSmall when the
/// problem has a capacity and the packing is higher, naming the capacity, the
/// height, the lower bound and, when it is known that no packing fits, the
/// buffers that cause it.
Result<Packing> Pack(const Problem& problem, const PackOptions& options = {});

struct PackAttempt {
  Packing packing;
  std::optional<Error> refusal;  // why it does not fit the capacity
};

/// The same, which gives the packing even when it is higher than the capacity.
Result<PackAttempt> TryPack(const Problem& problem,
                            const PackOptions& options = {});

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_PACKER_H_
