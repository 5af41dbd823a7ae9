#ifndef STOWAGE_TESTS_GPU_DEVICE_BENCH_H_
#define STOWAGE_TESTS_GPU_DEVICE_BENCH_H_

// Many steps of one program on a device: memory and time, of the whole step and op by op. A step
// is started before the loss of the previous one is read, except where ops are timed.
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
  int64_t warm_up = 100;  // steps that are not looked at
  int64_t steps = 10'000;
  /// Whether heap allocations in steps are counted, and are failures.
  bool count_heap = true;
};

struct BenchCase {
  SyntheticStep step;
  int64_t warm_up = 20;  // steps that are not timed
  int64_t steps = 1000;
  std::optional<Bytes> budget = {};  // met by recomputation where it must be
  bool fused = true;                 // false: each op by a kernel of its own
};

/// "gpt2-124m bf16 16 x 1024, 6.0 GB".
std::string BenchName(const BenchCase& bench);

// Errors of all three functions: of planning, of Session::Create and of the device.

/// The device's free memory is the same, to the byte, before and after the
/// steps, and they allocate nothing on the heap.
Status CheckGrowth(const GrowthCase& growth, Backend& backend,
                   gpu::Device& device, CheckRow* row);

/// The median time of a step, from loss to loss. Fails the row unless the arena is as large as
/// planned and within the budget, and all losses are finite.
Status RunBench(const BenchCase& bench, Backend& backend, gpu::Device& device,
                CheckRow* row);

/// The time of each kind of op in a step that runs op by op, waiting for the device
/// after each; of every node the median over the steps. Largest first, with the
/// operations a second.
Status TimeOps(const BenchCase& bench, Backend& backend, gpu::Device& device,
               CheckRow* row);

// The time of a branch in a step: a loop with a branch in each iteration, beside the same loop
// without.
//
//   STOWAGE_ASSIGN_OR_RETURN(const BranchCost cost, MeasureBranches({}, backend));

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

#endif  // STOWAGE_TESTS_GPU_DEVICE_BENCH_H_
