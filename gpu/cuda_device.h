#ifndef STOWAGE_GPU_CUDA_DEVICE_H_
#define STOWAGE_GPU_CUDA_DEVICE_H_

// Opens a GPU of this machine. CUDA's runtime is linked statically. The driver and cuBLASLt are
// loaded when the device is opened, so the program also starts on machines that have neither.
//
//   Result<std::unique_ptr<gpu::Device>> device = gpu::OpenCudaDevice({});
//   if (!device.ok()) Print(device.error().message);  // and use the CPU

#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/device.h"
#include "runtime/backend.h"

namespace stowage::gpu {

struct CudaOptions {
  int device = 0;  // the driver's device ordinal
  /// The path of the cuBLASLt library, or of its folder. If empty, the paths of PlacesOf
  /// (gpu/device_checks.h) are searched.
  std::string matmul_library;
  /// The folder of the autotune cache of matmul algorithms (gpu/matmul_algorithms.h). If empty,
  /// matmuls are not autotuned, and the library's first proposal is used.
  std::string algorithm_folder;
  /// With several ranks, the host collectives through which the ranks set up NCCL (gpu/nccl.h).
  /// `device` is then the number of this rank among the ranks of its host, and the ordinal is
  /// `device` modulo the number of visible devices. If null, there is a single rank.
  Collectives* collectives = nullptr;
};

/// Returns kDevice if this build has no CUDA, if the driver or the device is missing, too old or
/// fails, if NVIDIA_TF32_OVERRIDE is 1, or if cuBLASLt is missing or has another major version.
/// Propagates errors of MatMulAlgorithms::Open and of Nccl::Join.
Result<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions& options);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_DEVICE_H_
