#ifndef STOWAGE_GPU_CUBLAS_LT_PLACES_H_
#define STOWAGE_GPU_CUBLAS_LT_PLACES_H_

// Where cuBLASLt may be, which is opened when a program runs (base/shared_library.h).
//
//   Result<SharedLibrary> library = OpenCublasLt(13, "");
//   auto* create = library->Find("cublasLtCreate");

#include <string>
#include <vector>

#include "base/result.h"
#include "base/shared_library.h"

namespace stowage::gpu {

/// Where to look for cuBLASLt of version `major`, in order: `given` (a file or a
/// folder), or else the file or folder in STOWAGE_CUBLASLT, alone; otherwise what
/// the loader finds by itself, CUDA toolkits, also Conda's, and NVIDIA's wheels in
/// Python environments.
std::vector<std::string> CublasLtPlaces(int major, const std::string& given);

/// Opens it at the first of those places that has it. Errors: those of
/// OpenSharedLibrary.
Result<SharedLibrary> OpenCublasLt(int major, const std::string& given);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUBLAS_LT_PLACES_H_
