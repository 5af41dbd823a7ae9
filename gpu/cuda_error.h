#ifndef STOWAGE_GPU_CUDA_ERROR_H_
#define STOWAGE_GPU_CUDA_ERROR_H_

// What the CUDA runtime answers, as a Status.
//
//   STOWAGE_RETURN_IF_ERROR(CheckCuda(cudaFree(nullptr), "making a context"));

#include <cuda_runtime_api.h>

#include <string_view>

#include "base/result.h"
#include "base/strings.h"

namespace stowage::gpu {

/// Error kDevice, where there is one: `what` failed, and how.
inline Status CheckCuda(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // what is not the context's end is not told again
  return Error{ErrorCode::kDevice,
               StrCat("[gpu] ", what, ": ", cudaGetErrorString(error), " (",
                      cudaGetErrorName(error), ")")};
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_ERROR_H_
