#ifndef STOWAGE_TESTS_GPU_PTX_KERNELS_H_
#define STOWAGE_TESTS_GPU_PTX_KERNELS_H_

// Divides the compiled kernels between two tests. ptx_kernels_of_ranks_test runs the kernels that
// only collectives launch, on several threads. ptx_kernels_test runs all other kernels.

#include <string_view>

namespace stowage::testing {

/// Returns whether the kernel with this mangled name is in gpu/kernels/collectives.cu.cc.
inline bool IsOfRanks(std::string_view kernel) {
  return kernel.find("SumPartsKernel") != std::string_view::npos;
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_PTX_KERNELS_H_
