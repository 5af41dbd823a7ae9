#ifndef STOWAGE_GPU_GPU_BACKEND_H_
#define STOWAGE_GPU_GPU_BACKEND_H_

// The backend of a GPU: a session's arena is one allocation on the device, of
// exactly the planned bytes, and each of its programs one graph, or, where the host takes
// branches, a few (gpu/gpu_executable.h).
//
//   auto device = OpenCudaDevice({});
//   auto gpu = MakeGpuBackend(*std::move(device), {});
//
// Programs include gpu/gpu.h, which does both.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/attention_algorithms.h"
#include "gpu/device.h"
#include "runtime/backend.h"

namespace stowage::gpu {

/// In the backend's description, before the reason, where that is so for steps with
/// branches.
inline constexpr std::string_view kBranchesByHost = "the host takes branches: ";

/// There, before what trials of the ways of attention have found, each behind a "; "
/// (gpu/attention_trial.h).
inline constexpr std::string_view kAttentionTried = "attention was tried: ";

struct BackendOptions {
  /// Runs every step op by op, waits after each, and names the op at which the
  /// device failed or the first result that is not finite. Slow.
  bool check = false;
  /// The host takes the branches of steps, also where graphs of the device could hold them
  /// (gpu/step_graphs.h): to compare the two.
  bool branches_by_host = false;
  /// The ways of attention among which is chosen (GpuOptions::attention).
  AttentionAlgorithms attention = {};
  /// Where what was chosen is kept; empty: nothing is tried.
  std::string algorithm_folder = {};
};

/// A backend on `device`. Error kDevice when it cannot give two streams, and a third
/// where it is one of several ranks'; those of AutotuneCache::Open.
Result<std::unique_ptr<Backend>> MakeGpuBackend(std::unique_ptr<Device> device,
                                                const BackendOptions& options);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_GPU_BACKEND_H_
