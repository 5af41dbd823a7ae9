#ifndef STOWAGE_TESTS_GPU_PTX_PTX_GRIDS_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_GRIDS_H_

// The kernels that RunTestGrid (tests/gpu/grid_runner.h) has run on PTX so far. The PTX is that of
// the files that STOWAGE_KERNEL_REPORTS lists.
//
// Threads may run grids at the same time, each on its own machine; the kernels and their counts
// are shared under a lock.
//
//   for (const std::string& kernel : KernelsNotRun()) FAIL_CHECK(kernel);

#include <cstdint>
#include <string>
#include <vector>

namespace stowage::testing::ptx {

/// The names of all kernels, as nvcc mangled them, sorted.
std::vector<std::string> AllKernels();
/// The names of the kernels that no grid ran.
std::vector<std::string> KernelsNotRun();
/// The number of warp instructions executed.
int64_t InstructionsExecuted();

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_GRIDS_H_
