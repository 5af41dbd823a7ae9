#ifndef STOWAGE_TRAIN_STEP_SECONDS_H_
#define STOWAGE_TRAIN_STEP_SECONDS_H_

// About how long a step takes, before it has run: by the operations and bytes of its
// nodes, and by how many of them a device does in a second, which a product and a sum
// tell in a few hundredths of a second.
//
//   STOWAGE_ASSIGN_OR_RETURN(const DeviceRates rates,
//                            MeasureRates(*backend, DType::kF32));
//   const double seconds = StepSeconds(plan.step.graph, rates);
//
// It is a guess: every product is taken to be as fast as the one that was timed, and all
// else to wait for memory. Times of the ops themselves (planner/fit/op_times.h) say more.

#include "base/result.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "runtime/backend.h"

namespace stowage {

struct DeviceRates {
  double flops_per_second = 1;
  double bytes_per_second = 1;
};

/// Runs a product of matrices of a small transformer's sizes and a sum of two vectors of
/// 16 MiB on the device, in an element type. Errors: those of Session::Create and of the
/// device.
Result<DeviceRates> MeasureRates(Backend& backend, DType dtype);

/// Seconds of one run of `graph`, node after node: each as long as its operations or its
/// bytes take, whichever is longer. Views take none.
double StepSeconds(const Graph& graph, const DeviceRates& rates);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_SECONDS_H_
