#ifndef STOWAGE_GPU_GPU_BACKEND_H_
#define STOWAGE_GPU_GPU_BACKEND_H_

// Runs sessions on a GPU. The arena of a session is one allocation on the device, of exactly the
// planned bytes. Each program of the session is one graph, or several graphs if the host takes
// branches (gpu/gpu_executable.h).
//
//   auto device = OpenCudaDevice({});
//   auto gpu = MakeGpuBackend(*std::move(device), {});
//
// Users include gpu/gpu.h, which does both.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/device.h"
#include "gpu/queue.h"
#include "runtime/backend.h"

namespace stowage::gpu {

/// Precedes the reason why the host takes branches in the backend's description.
inline constexpr std::string_view kBranchesByHost = "the host takes branches: ";

/// Precedes the findings of attention trials (AttentionAutotuner) in the backend's description.
/// They are separated by "; ".
inline constexpr std::string_view kAttentionTried = "attention was tried: ";

struct BackendOptions {
  /// If true, steps run op by op and wait after each. An error names the op at which the device
  /// failed or that produced the first non-finite result. This is slow.
  bool check = false;
  /// If true, the host takes branches even if graphs of the device support them
  /// (gpu/step_graphs.h). This is used to compare the two.
  bool branches_by_host = false;
  /// The candidate algorithms of attention (GpuOptions::attention).
  AttentionAlgorithms attention = {};
  /// The folder of the autotune cache. If empty, there are no trials.
  std::string algorithm_folder = {};
};

/// Returns a backend that owns `device`. Propagates errors of creating two streams, or three for
/// several ranks, and errors of AttentionAutotuner::Open.
Result<std::unique_ptr<Backend>> MakeGpuBackend(std::unique_ptr<Device> device,
                                                const BackendOptions& options);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_GPU_BACKEND_H_
