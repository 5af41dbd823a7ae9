#ifndef STOWAGE_TESTS_GPU_PTX_CUDA_REGISTRY_H_
#define STOWAGE_TESTS_GPU_PTX_CUDA_REGISTRY_H_

// Stands in for the part of the CUDA runtime that objects of nvcc call when a
// program starts: it notes which kernel of the PTX each function of the host stands
// for. Nothing can be launched through it. It is written before main() alone, so that any
// thread may read it after that.
//
//   NameOfKernel(call.function)  // "_ZN7stowage3gpu...11SoftmaxRowsI..."

#include <string>

namespace stowage::testing::ptx {

/// Empty: it is no kernel.
std::string NameOfKernel(const void* function);

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_CUDA_REGISTRY_H_
