#include "tests/gpu/cudnn_property.h"

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "base/shared_library.h"
#include "base/strings.h"
#include "gpu/device_checks.h"

namespace stowage::testing {
namespace {

// What of cudnn_graph.h is used, so that a build needs no cuDNN. The numbers are those of
// cuDNN 9.
using Descriptor = void*;
constexpr int kSuccess = 0;
constexpr int kDevicePropertyDescriptor = 38;
constexpr int kDeviceId = 2700, kJsonRepresentation = 2702;
constexpr int kInt32 = 23, kChar = 24;

struct Cudnn {
  SharedLibrary library;
  size_t (*GetVersion)() = nullptr;
  const char* (*GetErrorString)(int) = nullptr;
  int (*BackendCreateDescriptor)(int, Descriptor*) = nullptr;
  int (*BackendDestroyDescriptor)(Descriptor) = nullptr;
  int (*BackendSetAttribute)(Descriptor, int, int, int64_t,
                             const void*) = nullptr;
  int (*BackendFinalize)(Descriptor) = nullptr;
  int (*BackendGetAttribute)(Descriptor, int, int, int64_t, int64_t*,
                             void*) = nullptr;

  Status Check(int status, std::string_view call) const {
    if (status == kSuccess) return {};
    return DeviceError("[gpu] cuDNN of ", library.path, ": ",
                       GetErrorString(status), " from ", call);
  }
};

Result<Cudnn> OpenCudnn(const std::string& given) {
  const gpu::NvidiaLibrary names = {.file = "libcudnn.so.9",
                                    .variable = "STOWAGE_CUDNN",
                                    .cuda = 13,
                                    .wheels = {"cudnn"}};
  Cudnn cudnn;
  STOWAGE_ASSIGN_OR_RETURN(
      cudnn.library,
      OpenSharedLibrary("cuDNN", gpu::PlacesOf(names, given),
                        {.room = "gpu", .cure = "name it with STOWAGE_CUDNN"}));
#define STOWAGE_LOOK_UP(name)                                              \
  cudnn.name = reinterpret_cast<decltype(cudnn.name)>(                     \
      cudnn.library.Find("cudnn" #name));                                  \
  if (cudnn.name == nullptr) {                                             \
    return DeviceError("[gpu] ", cudnn.library.path,                       \
                       " is no cuDNN of version 9: it lacks cudnn" #name); \
  }
  STOWAGE_LOOK_UP(GetVersion)
  STOWAGE_LOOK_UP(GetErrorString)
  STOWAGE_LOOK_UP(BackendCreateDescriptor)
  STOWAGE_LOOK_UP(BackendDestroyDescriptor)
  STOWAGE_LOOK_UP(BackendSetAttribute)
  STOWAGE_LOOK_UP(BackendFinalize)
  STOWAGE_LOOK_UP(BackendGetAttribute)
#undef STOWAGE_LOOK_UP
  return cudnn;
}

Result<std::string> ReadJson(const Cudnn& cudnn, Descriptor property,
                             int32_t device) {
  STOWAGE_RETURN_IF_ERROR(cudnn.Check(
      cudnn.BackendSetAttribute(property, kDeviceId, kInt32, 1, &device),
      "cudnnBackendSetAttribute"));
  STOWAGE_RETURN_IF_ERROR(cudnn.Check(
      cudnn.BackendFinalize(property),
      StrCat("cudnnBackendFinalize of the property of device ", device)));
  // Its length, with what ends it, then itself.
  int64_t size = 0;
  STOWAGE_RETURN_IF_ERROR(
      cudnn.Check(cudnn.BackendGetAttribute(property, kJsonRepresentation,
                                            kChar, 0, &size, nullptr),
                  "cudnnBackendGetAttribute"));
  std::string json(static_cast<size_t>(size), '\0');
  STOWAGE_RETURN_IF_ERROR(
      cudnn.Check(cudnn.BackendGetAttribute(property, kJsonRepresentation,
                                            kChar, size, &size, json.data()),
                  "cudnnBackendGetAttribute"));
  json.resize(json.find_last_not_of('\0') + 1);
  return json;
}

}  // namespace

Result<CudnnProperty> ReadCudnnProperty(int device, const std::string& given) {
  STOWAGE_ASSIGN_OR_RETURN(const Cudnn cudnn, OpenCudnn(given));
  Descriptor property = nullptr;
  STOWAGE_RETURN_IF_ERROR(cudnn.Check(
      cudnn.BackendCreateDescriptor(kDevicePropertyDescriptor, &property),
      "cudnnBackendCreateDescriptor of a device's property, which cuDNN has "
      "since 9.8"));
  Result<std::string> json = ReadJson(cudnn, property, device);
  cudnn.BackendDestroyDescriptor(property);
  if (!json.ok()) return json.error();
  return CudnnProperty{.library = cudnn.library.path,
                       .version = static_cast<int64_t>(cudnn.GetVersion()),
                       .json = *std::move(json)};
}

}  // namespace stowage::testing
