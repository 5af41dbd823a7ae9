#ifndef STOWAGE_GPU_DEVICE_CHECKS_H_
#define STOWAGE_GPU_DEVICE_CHECKS_H_

// Checks that a machine satisfies the requirements of the GPU backend, and locates NVIDIA's
// libraries. Errors are kDevice unless noted. They name the value found, if there is one, and the
// value required.
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

// The oldest supported compute capability. It has bf16 tensor cores and asynchronous copies.
inline constexpr int kMinMajor = 8;
inline constexpr int kMinMinor = 0;

/// Returns the name of a CUDA version number, such as "13.0" for 13000.
std::string CudaVersionName(int version);

/// Checks that the driver can run this program: its major version must not be below the major
/// version of the runtime. `driver` is the CUDA version of the driver, or 0 if there is no driver.
/// `runtime` is the CUDA version that this program is built with.
Status CheckDriver(int driver, int runtime);

/// Returns kUnsupported if one of these versions is below CUDA 12.8, which introduced branches in
/// graphs. The arguments are as in CheckDriver.
Status CheckBranches(int driver, int runtime);

/// Checks that the device ordinal is in [0, count), where `count` is the number of visible devices.
Status CheckDeviceNumber(int ordinal, int count);

Status CheckArchitecture(std::string_view name, int major, int minor);

/// Checks that f32 matmuls are computed in f32. `value` is the value of the environment variable
/// NVIDIA_TF32_OVERRIDE, or null if the variable is not set. Returns an error if it is "1", because
/// NVIDIA's libraries then round f32 operands to 10 mantissa bits, whatever a program requests.
Status CheckFullFloats(const char* value);

/// Checks that the major version of cuBLASLt is `needed_major`. `version` is the library's version
/// number, such as 130100, and `path` is the path from which the library was loaded.
Status CheckMatMulLibrary(int version, int needed_major, std::string_view path);

/// The most shared memory per block that a kernel may use without requesting more. The memory that
/// a kernel uses is the sum of the bytes that its code declares (`fixed` in MustAskForShared) and
/// the bytes that a launch adds (`dynamic`).
inline constexpr size_t kSharedBytesOfAll = 48 << 10;

/// Returns whether the kernel called `kernel` must request its shared memory, because it uses more
/// than kSharedBytesOfAll. Returns an error if it uses more than `most` bytes, which is the limit
/// of the device called `name`.
Result<bool> MustAskForShared(std::string_view kernel, size_t fixed,
                              size_t dynamic, size_t most,
                              std::string_view name);

/// Returns the error for a device called `name` that cannot allocate an arena of `needed` bytes.
Error OutOfMemory(std::string_view name, Bytes needed,
                  const DeviceMemory& memory);

/// An NVIDIA library that is opened at run time (base/shared_library.h).
struct NvidiaLibrary {
  std::string file = {};  // "libnccl.so.2"
  /// The environment variable that may hold the path of the library or of its folder.
  std::string variable = {};
  int cuda = 0;  // the major version of its CUDA toolkit
  /// The folders under nvidia/ in Python's site-packages that may contain it.
  std::vector<std::string> wheels = {};
};

/// Returns the paths at which the library is searched, in order. If `given`, a file or a folder, is
/// not empty, it is the only one. Otherwise, if the library's environment variable is set, its
/// value is the only one. Otherwise, the loader's default path comes first, then CUDA toolkits,
/// including Conda's, and then NVIDIA's wheels in Python environments.
std::vector<std::string> PlacesOf(const NvidiaLibrary& library,
                                  const std::string& given);

/// CublasLtLibrary describes cuBLASLt of major version `major`. NcclLibrary describes NCCL for
/// major version `cuda` of CUDA. OpenCublasLt and OpenNccl open these libraries at the first path
/// of PlacesOf that loads, and propagate errors of OpenSharedLibrary.
NvidiaLibrary CublasLtLibrary(int major);
Result<SharedLibrary> OpenCublasLt(int major, const std::string& given);
NvidiaLibrary NcclLibrary(int cuda);
Result<SharedLibrary> OpenNccl(int cuda);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_DEVICE_CHECKS_H_
