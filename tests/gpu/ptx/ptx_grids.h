#ifndef STOWAGE_TESTS_GPU_PTX_PTX_GRIDS_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_GRIDS_H_

// Reports which kernels RunTestGrid (tests/gpu/grid_runner.h) has run in the PTX interpreter so
// far. The kernels are read from the PTX files that the variable STOWAGE_KERNEL_REPORTS lists.
//
// Threads may run kernels concurrently, each with its own interpreter. The list of kernels and the
// counts are shared and protected by a lock.
//
//   for (const std::string& kernel : KernelsNotRun()) FAIL_CHECK(kernel);

#include <cstdint>
#include <string>
#include <vector>

namespace stowage::testing::ptx {

/// Returns the mangled names of all kernels, sorted.
std::vector<std::string> AllKernels();
/// Returns the names of the kernels that have not run.
std::vector<std::string> KernelsNotRun();
/// Returns the number of warp instructions executed so far.
int64_t InstructionsExecuted();

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_GRIDS_H_
