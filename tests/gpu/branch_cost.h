#ifndef STOWAGE_TESTS_GPU_BRANCH_COST_H_
#define STOWAGE_TESTS_GPU_BRANCH_COST_H_

// What a branch costs a step on a device: a loop with a branch in each iteration, beside the same
// loop without.
//
//   STOWAGE_ASSIGN_OR_RETURN(const BranchCost cost, MeasureBranches({}, backend));

#include <cstdint>

#include "base/result.h"
#include "runtime/backend.h"

namespace stowage::testing {

struct BranchCostCase {
  int64_t iterations = 200;
  int64_t warm_up = 5;  // steps that are not timed
  int64_t steps = 50;
};

struct BranchCost {
  double seconds = 0;  // of a branch, by the medians of steps
  double held =
      0;  // seconds for which the host is in Start, of a step's branch
};

/// Errors: of Session::Create and of the device.
Result<BranchCost> MeasureBranches(const BranchCostCase& of, Backend& backend);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_BRANCH_COST_H_
