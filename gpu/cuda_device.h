#ifndef STOWAGE_GPU_CUDA_DEVICE_H_
#define STOWAGE_GPU_CUDA_DEVICE_H_

// The GPU of this machine. CUDA's runtime is part of the program; its driver and
// cuBLASLt are looked for when the device is opened, so a program with this in
// it starts anywhere.
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
  int device = 0;  // its number, as the driver counts
  /// The file of cuBLASLt, or its folder; empty: see PlacesOf
  /// (gpu/nvidia_libraries.h).
  std::string matmul_library;
  /// Where the algorithms of products are kept, once they were chosen by their times
  /// (gpu/product_algorithms.h). Empty: the library's first proposals are taken.
  std::string algorithm_folder;
  /// Several ranks: what has joined them so far. Their devices are joined by NCCL
  /// (gpu/nccl.h), and `device` is the rank's number on its host, which takes a device
  /// of those that it sees, over and over.
  Collectives* collectives = nullptr;
};

/// Errors, all kDevice: this build has no CUDA; no driver, or one that is too
/// old; no such device, or one that is too old; cuBLASLt is missing or of another
/// version. Those of ProductAlgorithms::Open and of Nccl::Join.
Result<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions& options);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUDA_DEVICE_H_
