#ifndef STOWAGE_GPU_NVIDIA_LIBRARIES_H_
#define STOWAGE_GPU_NVIDIA_LIBRARIES_H_

// Where NVIDIA's libraries may be, which are opened when a program runs
// (base/shared_library.h).
//
//   Result<SharedLibrary> library = OpenCublasLt(13, "");
//   auto* create = library->Find("cublasLtCreate");

#include <string>
#include <vector>

#include "base/result.h"
#include "base/shared_library.h"

namespace stowage::gpu {

struct NvidiaLibrary {
  std::string file = {};  // "libnccl.so.2"
  std::string variable =
      {};        // of the environment, that names its file or folder
  int cuda = 0;  // the major version of the toolkit that it belongs to
  /// Its folders under nvidia/ in Python's site-packages.
  std::vector<std::string> wheels = {};
};

/// Where to look for it, in order: `given` (a file or a folder), or else the file or
/// folder in its variable, alone; otherwise what the loader finds by itself, CUDA
/// toolkits, also Conda's, and NVIDIA's wheels in Python environments.
std::vector<std::string> PlacesOf(const NvidiaLibrary& library,
                                  const std::string& given);

/// cuBLASLt of version `major`, and NCCL, of whatever toolkit of version `cuda`. Opens
/// the first place that has it. Errors: those of OpenSharedLibrary.
NvidiaLibrary CublasLtLibrary(int major);
Result<SharedLibrary> OpenCublasLt(int major, const std::string& given);
NvidiaLibrary NcclLibrary(int cuda);
Result<SharedLibrary> OpenNccl(int cuda);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_NVIDIA_LIBRARIES_H_
