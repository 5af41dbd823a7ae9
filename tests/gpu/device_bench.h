#ifndef STOWAGE_TESTS_GPU_DEVICE_BENCH_H_
#define STOWAGE_TESTS_GPU_DEVICE_BENCH_H_

// Many steps of one program on a device: what they take of its memory, and how
// long. A step is started before the loss of the one before it is read.

#include <cstdint>
#include <optional>

#include "base/bytes.h"
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
};

/// The device's free memory is the same, to the byte, before and after the
/// steps, and they allocate nothing on the heap.
CheckRow CheckGrowth(const GrowthCase& growth, Backend& backend,
                     gpu::Device& device);

/// The median time of a step, from loss to loss; the arena is as large as
/// planned and within the budget, all losses are finite.
CheckRow RunBench(const BenchCase& bench, Backend& backend,
                  gpu::Device& device);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_DEVICE_BENCH_H_
