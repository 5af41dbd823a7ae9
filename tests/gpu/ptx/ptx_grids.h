#ifndef STOWAGE_TESTS_GPU_PTX_PTX_GRIDS_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_GRIDS_H_

// What the grids that RunTestGrid (tests/gpu/grid_runner.h) ran on PTX have seen of
// the kernels so far. The PTX is that of the files that STOWAGE_KERNEL_REPORTS lists.
//
// Threads may run grids at the same time, each on a machine of its own; the kernels and
// what is counted of them are shared, under a lock.
//
//   for (const std::string& kernel : KernelsNotRun()) FAIL_CHECK(kernel);

#include <cstdint>
#include <string>
#include <vector>

namespace stowage::testing::ptx {

/// The names of all kernels, as nvcc mangled them, sorted.
std::vector<std::string> AllKernels();
/// Those that no grid ran.
std::vector<std::string> KernelsNotRun();
/// Instructions of warps that were executed.
int64_t InstructionsExecuted();

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_GRIDS_H_
