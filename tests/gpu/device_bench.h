#ifndef STOWAGE_TESTS_GPU_DEVICE_BENCH_H_
#define STOWAGE_TESTS_GPU_DEVICE_BENCH_H_

// Runs many steps of a program on a device, and measures the memory and time of a step and the
// time of each op. A step is started before the loss of the previous step is read, except when ops
// are timed.
//
//   const BenchCase bench = {.step = {.model = "gpt-nano"}};
//   CheckRow row{.name = BenchName(bench)};
//   const Status status = RunBench(bench, backend, device, &row);

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/device.h"
#include "runtime/backend.h"
#include "tests/gpu/check_rows.h"
#include "tests/gpu/synthetic_run.h"

namespace stowage::testing {

struct GrowthCase {
  SyntheticStep step = {.model = "gpt-nano"};
  int64_t warm_up = 100;  // steps before the measurement
  int64_t steps = 10'000;
  /// If true, a heap allocation in a step fails the row.
  bool count_heap = true;
};

struct BenchCase {
  SyntheticStep step;
  int64_t warm_up = 20;  // steps that are not timed
  int64_t steps = 1000;
  std::optional<Bytes> budget = {};  // recomputes if needed to fit
  bool fused = true;                 // if false, each op is a separate kernel
};

/// Returns for example "gpt2-124m bf16 16 x 1024, 6.0 GB", which is the model, the data type, the
/// batch, the sequence length and the budget.
std::string BenchName(const BenchCase& bench);

// The next three functions propagate errors of planning, of Session::Create and of the device.

/// Checks that steps do not leak. Fails the row unless the device's free memory is the same, to
/// the byte, before and after the steps, and the steps allocate nothing on the heap.
Status CheckGrowth(const GrowthCase& growth, Backend& backend,
                   gpu::Device& device, CheckRow* row);

/// Measures the median time of a step, which is the time between the losses of consecutive steps.
/// Fails the row unless the arena has the planned size and fits the budget, and all losses are
/// finite.
Status RunBench(const BenchCase& bench, Backend& backend, gpu::Device& device,
                CheckRow* row);

/// Measures the time of each kind of op, in steps that run op by op and wait for the device after
/// each op. The time of a kind is the sum of its nodes' medians over the steps. The largest time
/// comes first. The row's data also has the number of operations (FLOPs) of each kind.
Status TimeOps(const BenchCase& bench, Backend& backend, gpu::Device& device,
               CheckRow* row);

// MeasureBranches measures the time of a branch in a step. It compares a loop that has a branch in
// each iteration with the same loop without branches.
//
//   STOWAGE_ASSIGN_OR_RETURN(const BranchCost cost, MeasureBranches({}, backend));

struct BranchCostCase {
  int64_t iterations = 200;
  int64_t warm_up = 5;  // steps that are not timed
  int64_t steps = 50;
};

struct BranchCost {
  double seconds = 0;  // per branch, from the median times of steps
  double held = 0;     // seconds per branch that the host spends in Start
};

/// Returns the times per branch. Propagates errors of planning, of Session::Create and of the
/// device.
Result<BranchCost> MeasureBranches(const BranchCostCase& of, Backend& backend);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_DEVICE_BENCH_H_
