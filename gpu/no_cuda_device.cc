// The device of a build without a CUDA toolkit.

#include "gpu/cuda_device.h"

namespace stowage::gpu {

Result<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions&) {
  return Error{ErrorCode::kDevice,
               "[gpu] this program was built without CUDA; install a CUDA "
               "toolkit and build it again (docs/gpu.md), or use the CPU"};
}

}  // namespace stowage::gpu
