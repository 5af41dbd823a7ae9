#ifndef STOWAGE_GPU_GPU_BACKEND_H_
#define STOWAGE_GPU_GPU_BACKEND_H_

// Implements Backend (runtime/backend.h) on a Device (gpu/device.h). The arena of a session is one
// allocation on the device, of exactly the planned bytes. A step of a program is one graph, or
// several graphs if the host takes branches (gpu/step_graphs.h).
//
//   auto device = OpenCudaDevice({});
//   auto gpu = MakeGpuBackend(*std::move(device), {});
//
// MakeGpuBackend of gpu/gpu.h, which users call, does both.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/device.h"
#include "gpu/queue.h"
#include "runtime/backend.h"

namespace stowage::gpu {

/// In the description of the backend, precedes the reason why the host takes branches.
inline constexpr std::string_view kBranchesByHost = "the host takes branches: ";

/// In the description of the backend, precedes the findings of attention trials
/// (AttentionAutotuner), which are separated by "; ".
inline constexpr std::string_view kAttentionTried = "attention was tried: ";

struct BackendOptions {
  /// See GpuOptions::check (gpu/gpu.h).
  bool check = false;
  /// If true, the host takes branches even if graphs of the device support them
  /// (gpu/step_graphs.h). Tests use this to compare the two ways.
  bool branches_by_host = false;
  /// The candidate algorithms of attention (GpuOptions::attention).
  AttentionAlgorithms attention = {};
  /// The folder of the autotune cache of attention. If empty, there are no trials.
  std::string algorithm_folder = {};
};

/// Returns a backend that owns `device`. Propagates errors of AttentionAutotuner::Open, of
/// Device::CreateStream and of Device::Memory.
Result<std::unique_ptr<Backend>> MakeGpuBackend(std::unique_ptr<Device> device,
                                                const BackendOptions& options);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_GPU_BACKEND_H_
