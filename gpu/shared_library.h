#ifndef STOWAGE_GPU_SHARED_LIBRARY_H_
#define STOWAGE_GPU_SHARED_LIBRARY_H_

// Libraries that are looked for when a program runs, so that it starts where
// they are not installed.
//
//   Result<SharedLibrary> library =
//       OpenSharedLibrary("libcublasLt.so.13", CublasLtPlaces(13, ""));
//   auto* create = library->Find("cublasLtCreate");

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace stowage::gpu {

/// Loaded until the program ends.
struct SharedLibrary {
  void* handle = nullptr;
  std::string path;  // of the file

  /// The address of `symbol`; null when it has none.
  void* Find(const char* symbol) const;
};

/// Where to look for cuBLASLt of version `major`, in order: `given` (a file or a
/// folder), or else the file or folder in STOWAGE_CUBLASLT, alone; otherwise what
/// the loader finds by itself, CUDA toolkits, also Conda's, and NVIDIA's wheels in
/// Python environments.
std::vector<std::string> CublasLtPlaces(int major, const std::string& given);

/// Opens the first of `places` that can be. Error kDevice naming `name` and every
/// place, and of a file that is there, why it cannot be loaded.
Result<SharedLibrary> OpenSharedLibrary(const std::string& name,
                                        std::span<const std::string> places);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_SHARED_LIBRARY_H_
