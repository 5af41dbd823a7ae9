#ifndef STOWAGE_GPU_GPU_BACKEND_H_
#define STOWAGE_GPU_GPU_BACKEND_H_

// The backend of a GPU: a session's arena is one allocation on the device, of
// exactly the planned bytes, and each of its programs one graph, or a few
// (gpu/gpu_executable.h).
//
//   auto device = OpenCudaDevice({});
//   auto gpu = MakeGpuBackend(*std::move(device), {});
//
// Programs include gpu/gpu.h, which does both.

#include <memory>

#include "base/result.h"
#include "gpu/device.h"
#include "runtime/backend.h"

namespace stowage::gpu {

struct BackendOptions {
  /// Runs every step op by op, waits after each, and names the op at which the
  /// device failed or the first result that is not finite. Slow.
  bool check = false;
};

/// A backend on `device`. Error kDevice when it cannot give two streams, and a third
/// where it is one of several ranks'.
Result<std::unique_ptr<Backend>> MakeGpuBackend(std::unique_ptr<Device> device,
                                                const BackendOptions& options);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_GPU_BACKEND_H_
