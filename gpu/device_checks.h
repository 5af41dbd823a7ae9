#ifndef STOWAGE_GPU_DEVICE_CHECKS_H_
#define STOWAGE_GPU_DEVICE_CHECKS_H_

// What must be so for a machine to run the GPU backend, as rules over what was
// found on it. Errors are kDevice, and say what was found and what would do.
//
//   STOWAGE_RETURN_IF_ERROR(CheckDriver(12040, CUDART_VERSION));

#include <cstddef>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/device.h"

namespace stowage::gpu {

// The oldest compute capability: bf16 tensor cores and copies to shared memory.
inline constexpr int kMinMajor = 8;
inline constexpr int kMinMinor = 0;

/// "13.0" of CUDA's 13000.
std::string CudaVersionName(int version);

/// `driver`: the CUDA version that the driver is for, 0 when there is none;
/// `runtime`: the one that this program is built with.
Status CheckDriver(int driver, int runtime);

/// Whether graphs hold branches, with a driver and a program as above. Error kUnsupported.
Status CheckBranches(int driver, int runtime);

/// Whether device `ordinal` is among `count`.
Status CheckDeviceNumber(int ordinal, int count);

Status CheckArchitecture(std::string_view name, int major, int minor);

/// Whether products of f32 stay products of f32. `value`: the environment variable
/// NVIDIA_TF32_OVERRIDE, null where it is not set; at 1 NVIDIA's libraries round their
/// factors to 10 bits, whatever a program asks for.
Status CheckFullFloats(const char* value);

/// `version` as cuBLASLt tells it (130100), loaded from `path`.
Status CheckMatMulLibrary(int version, int needed_major, std::string_view path);

/// What a kernel may have of shared memory without asking, what its code declares
/// (`fixed`) and what a launch adds (`dynamic`) together.
inline constexpr size_t kSharedBytesOfAll = 48 << 10;

/// Whether `kernel` must ask for so many bytes of shared memory a block. Error:
/// more than the `most` that the device called `name` has.
Result<bool> MustAskForShared(std::string_view kernel, size_t fixed,
                              size_t dynamic, size_t most,
                              std::string_view name);

/// That a device called `name` has not `needed` bytes.
Error OutOfMemory(std::string_view name, Bytes needed,
                  const DeviceMemory& memory);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_DEVICE_CHECKS_H_
