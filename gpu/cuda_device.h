#ifndef STOWAGE_GPU_CUDA_DEVICE_H_
#define STOWAGE_GPU_CUDA_DEVICE_H_

// The GPU of this machine. CUDA's runtime is linked statically; the driver and cuBLASLt are
// loaded when the device is opened, so the program starts on any machine.
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
  int device = 0;  // the driver's number of the device
  /// The file of cuBLASLt, or its folder; empty: see PlacesOf
  /// (gpu/device_checks.h).
  std::string matmul_library;
  /// Where the autotuned algorithms of matmuls are kept (gpu/matmul_algorithms.h). Empty:
  /// the library's first proposals are used.
  std::string algorithm_folder;
  /// For several ranks: joins them while NCCL (gpu/nccl.h) joins their devices. `device` is
  /// then the rank's number on its host, modulo the devices that it sees.
  Collectives* collectives = nullptr;
};

/// Errors: kDevice if this build has no CUDA, the driver or the device is missing or too old,
/// or cuBLASLt is missing or of another version; those of MatMulAlgorithms::Open and of
/// Nccl::Join.
Result<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions& options);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_DEVICE_H_
