#ifndef STOWAGE_GPU_DEVICE_CHECKS_H_
#define STOWAGE_GPU_DEVICE_CHECKS_H_

// The requirements of the GPU backend on a machine, and where NVIDIA's libraries are found.
// Errors are kDevice, and name what was found and what is required.
//
//   STOWAGE_RETURN_IF_ERROR(CheckDriver(12040, CUDART_VERSION));
//
//   Result<SharedLibrary> library = OpenCublasLt(13, "");
//   auto* create = library->Find("cublasLtCreate");

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/shared_library.h"
#include "gpu/device.h"

namespace stowage::gpu {

// The oldest supported compute capability, with bf16 tensor cores and asynchronous copies.
inline constexpr int kMinMajor = 8;
inline constexpr int kMinMinor = 0;

/// "13.0" for CUDA's 13000.
std::string CudaVersionName(int version);

/// `driver`: the CUDA version of the driver, 0 if there is none; `runtime`: the version that
/// this program is built with.
Status CheckDriver(int driver, int runtime);

/// Whether graphs can contain branches, with versions as above. Error kUnsupported.
Status CheckBranches(int driver, int runtime);

/// Whether device `ordinal` is among `count`.
Status CheckDeviceNumber(int ordinal, int count);

Status CheckArchitecture(std::string_view name, int major, int minor);

/// Whether matmuls of f32 are computed in f32. `value`: the environment variable
/// NVIDIA_TF32_OVERRIDE, null if it is not set; at 1 NVIDIA's libraries round factors to 10
/// bits, whatever a program requests.
Status CheckFullFloats(const char* value);

/// `version`: cuBLASLt's (130100), loaded from `path`.
Status CheckMatMulLibrary(int version, int needed_major, std::string_view path);

/// The shared memory per block that a kernel may use without a request: what its code
/// declares (`fixed`) and a launch adds (`dynamic`) together.
inline constexpr size_t kSharedBytesOfAll = 48 << 10;

/// Whether `kernel` must request its bytes of shared memory per block. Error: more than
/// `most`, the limit of the device called `name`.
Result<bool> MustAskForShared(std::string_view kernel, size_t fixed,
                              size_t dynamic, size_t most,
                              std::string_view name);

/// The error of a device called `name` that lacks `needed` bytes.
Error OutOfMemory(std::string_view name, Bytes needed,
                  const DeviceMemory& memory);

/// A library of NVIDIA that is opened when a program runs (base/shared_library.h).
struct NvidiaLibrary {
  std::string file = {};  // "libnccl.so.2"
  /// The environment variable that names its file or folder.
  std::string variable = {};
  int cuda = 0;  // the major version of its toolkit
  /// Its folders under nvidia/ in Python's site-packages.
  std::vector<std::string> wheels = {};
};

/// The places to search, in order: only `given` (a file or a folder), or only the file or
/// folder in its variable; otherwise the loader's own, CUDA toolkits, also Conda's, and
/// NVIDIA's wheels in Python environments.
std::vector<std::string> PlacesOf(const NvidiaLibrary& library,
                                  const std::string& given);

/// cuBLASLt of version `major`, and NCCL for CUDA `cuda`. Opens the first place that has it.
/// Errors: those of OpenSharedLibrary.
NvidiaLibrary CublasLtLibrary(int major);
Result<SharedLibrary> OpenCublasLt(int major, const std::string& given);
NvidiaLibrary NcclLibrary(int cuda);
Result<SharedLibrary> OpenNccl(int cuda);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_DEVICE_CHECKS_H_
