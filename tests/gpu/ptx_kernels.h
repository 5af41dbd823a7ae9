#ifndef STOWAGE_TESTS_GPU_PTX_KERNELS_H_
#define STOWAGE_TESTS_GPU_PTX_KERNELS_H_

// The division of the compiled kernels between two programs: ptx_kernels_of_ranks_test runs
// those that only collectives launch, and starts threads for that; ptx_kernels_test the rest.

#include <string_view>

namespace stowage::testing {

/// Whether the kernel of this mangled name is one of gpu/kernels/collectives.cu.cc.
inline bool IsOfRanks(std::string_view kernel) {
  return kernel.find("SumPartsKernel") != std::string_view::npos;
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_PTX_KERNELS_H_
