#include "gpu/device_checks.h"

#include "base/result.h"
#include "base/strings.h"

namespace stowage::gpu {
std::string CudaVersionName(int version) {
  return StrCat(version / 1000, ".", version % 1000 / 10);
}

Status CheckDriver(int driver, int runtime) {
  if (driver == 0) {
    return DeviceError(
        "[gpu] this machine has no NVIDIA driver; expected one for "
        "CUDA ",
        CudaVersionName(runtime / 1000 * 1000),
        " or later; install it, or use the CPU");
  }
  // Any driver of a major version runs what was built for that version.
  if (driver / 1000 >= runtime / 1000) return {};
  return DeviceError("[gpu] the driver is too old: it is for CUDA ",
                     CudaVersionName(driver), "; this program needs one for ",
                     CudaVersionName(runtime / 1000 * 1000),
                     " or later; install a newer driver");
}

Status CheckBranches(int driver, int runtime) {
  constexpr int kFirst = 12080;
  if (driver >= kFirst && runtime >= kFirst) return {};
  return Error{
      ErrorCode::kUnsupported,
      StrCat("[gpu] graphs hold branches since CUDA ", CudaVersionName(kFirst),
             "; the driver is for CUDA ", CudaVersionName(driver),
             ", and this program is built with ", CudaVersionName(runtime))};
}

Status CheckDeviceNumber(int ordinal, int count) {
  if (count == 0) {
    return DeviceError(
        "[gpu] this machine has no CUDA device that the driver shows; see "
        "nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  if (ordinal >= 0 && ordinal < count) return {};
  return DeviceError("[gpu] there is no device ", ordinal,
                     ": this machine shows ", count, "; expected 0 to ",
                     count - 1);
}

Status CheckArchitecture(std::string_view name, int major, int minor) {
  if (major > kMinMajor || (major == kMinMajor && minor >= kMinMinor)) {
    return {};
  }
  return DeviceError("[gpu] ", name, " is of compute capability ", major, ".",
                     minor, "; the kernels need ", kMinMajor, ".", kMinMinor,
                     " or later (A100, RTX 30, H100, ...)");
}

Status CheckFullFloats(const char* value) {
  if (value == nullptr || std::string_view(value) != "1") return {};
  return DeviceError(
      "[gpu] NVIDIA_TF32_OVERRIDE is 1, by which cuBLASLt would round the "
      "factors of "
      "f32 products to 10 bits; expected it unset or 0; unset it");
}

Status CheckMatMulLibrary(int version, int needed_major,
                          std::string_view path) {
  if (version / 10000 == needed_major) return {};  // 130100 is 13.1
  return DeviceError("[gpu] ", path, " is cuBLASLt of version ", version,
                     "; this program needs version ", needed_major);
}

Result<bool> MustAskForShared(std::string_view kernel, size_t fixed,
                              size_t dynamic, size_t most,
                              std::string_view name) {
  const size_t needed = fixed + dynamic;
  if (needed <= most) return needed > kSharedBytesOfAll;
  return DeviceError("[gpu] ", kernel, " needs ", needed,
                     " bytes of shared memory a block; ", name, " has ", most);
}

Error OutOfMemory(std::string_view name, Bytes needed,
                  const DeviceMemory& memory) {
  return DeviceError("[gpu] an arena of ", FormatBytes(needed), " (", needed,
                     " bytes) cannot be allocated on ", name, ": ",
                     FormatBytes(memory.free), " of ",
                     FormatBytes(memory.total),
                     " are free; end what else uses it, or plan with a smaller "
                     "budget");
}

}  // namespace stowage::gpu
