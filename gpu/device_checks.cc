#include "gpu/device_checks.h"

#include <glob.h>
#include <sys/stat.h>

#include <cstdlib>

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
  // A driver runs any program built for its major version.
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

namespace {

std::string Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// The paths that match a pattern such as "/usr/lib/python3*/x".
std::vector<std::string> Matches(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

}  // namespace

std::vector<std::string> PlacesOf(const NvidiaLibrary& library,
                                  const std::string& given) {
  const std::string& file = library.file;
  const std::string chosen = given.empty() ? Variable(library.variable) : given;
  if (!chosen.empty()) {
    return {IsFolder(chosen) ? StrCat(chosen, "/", file) : chosen};
  }
  std::vector<std::string> places = {file};
  for (const std::string& root :
       {Variable("CUDA_HOME"), Variable("CUDA_PATH"), Variable("CONDA_PREFIX"),
        std::string("/usr/local/cuda"),
        StrCat("/usr/local/cuda-", library.cuda)}) {
    if (root.empty()) continue;
    places.push_back(StrCat(root, "/lib64/", file));
    places.push_back(StrCat(root, "/lib/", file));
  }
  for (const std::string& root :
       {Variable("VIRTUAL_ENV"), Variable("CONDA_PREFIX"),
        Variable("HOME").empty() ? "" : Variable("HOME") + "/.local",
        std::string("/usr/local"), std::string("/usr")}) {
    if (root.empty()) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      for (const std::string& wheel : library.wheels) {
        const auto found = Matches(StrCat(root, "/lib/python3*/", packages,
                                          "/nvidia/", wheel, "/lib/", file));
        places.insert(places.end(), found.begin(), found.end());
      }
    }
  }
  return places;
}

NvidiaLibrary CublasLtLibrary(int major) {
  return {.file = StrCat("libcublasLt.so.", major),
          .variable = "STOWAGE_CUBLASLT",
          .cuda = major,
          .wheels = {StrCat("cu", major), "cublas"}};
}

Result<SharedLibrary> OpenCublasLt(int major, const std::string& given) {
  const NvidiaLibrary library = CublasLtLibrary(major);
  return OpenSharedLibrary(
      library.file, PlacesOf(library, given),
      {.room = "gpu",
       .cure = "install cuBLAS (a CUDA toolkit, or NVIDIA's wheels in a Python "
               "environment), or name the file or its folder in "
               "STOWAGE_CUBLASLT"});
}

NvidiaLibrary NcclLibrary(int cuda) {
  return {.file = "libnccl.so.2",
          .variable = "STOWAGE_NCCL",
          .cuda = cuda,
          .wheels = {"nccl"}};
}

Result<SharedLibrary> OpenNccl(int cuda) {
  const NvidiaLibrary library = NcclLibrary(cuda);
  return OpenSharedLibrary(
      library.file, PlacesOf(library, ""),
      {.room = "gpu",
       .cure = "install NCCL (libnccl2, or NVIDIA's wheel in a Python "
               "environment), or name the file or its folder in STOWAGE_NCCL"});
}

}  // namespace stowage::gpu
