// The device of a build without GPU code.

#include "gpu/cuda_device.h"

namespace stowage::gpu {

Result<std::unique_ptr<Device>> OpenCudaDevice(const CudaOptions&) {
  return Error{ErrorCode::kDevice,
               "[gpu] this program was built without GPU code: expected a CUDA "
               "toolkit, and a GPU or --config=cuda, where it is built "
               "(docs/guides/gpu.md); or use the CPU"};
}

}  // namespace stowage::gpu
