#include "gpu/gpu.h"

#include <utility>

#include "gpu/cuda_device.h"
#include "gpu/gpu_backend.h"

namespace stowage {

Result<std::unique_ptr<Backend>> MakeGpuBackend(const GpuOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(
      std::unique_ptr<gpu::Device> device,
      gpu::OpenCudaDevice({.device = options.device,
                           .matmul_library = options.matmul_library,
                           .algorithm_folder = options.algorithm_folder,
                           .collectives = options.collectives}));
  return gpu::MakeGpuBackend(std::move(device),
                             {.check = options.check,
                              .attention = options.attention,
                              .algorithm_folder = options.algorithm_folder});
}

}  // namespace stowage
