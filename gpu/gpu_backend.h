#ifndef STOWAGE_GPU_GPU_BACKEND_H_
#define STOWAGE_GPU_GPU_BACKEND_H_

// The backend of a GPU. A session's arena is one allocation on the device, of exactly the
// planned bytes; each of its programs is one graph or, if the host takes branches, several
// (gpu/gpu_executable.h).
//
//   auto device = OpenCudaDevice({});
//   auto gpu = MakeGpuBackend(*std::move(device), {});
//
// Programs include gpu/gpu.h, which does both.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gpu/device.h"
#include "gpu/queue.h"
#include "runtime/backend.h"

namespace stowage::gpu {

/// Precedes, in the backend's description, the reason why the host takes branches.
inline constexpr std::string_view kBranchesByHost = "the host takes branches: ";

/// Precedes, in the description, the findings of trials of attention (AttentionAutotuner),
/// separated by "; ".
inline constexpr std::string_view kAttentionTried = "attention was tried: ";

struct BackendOptions {
  /// Runs every step op by op, waits after each, and names the op at which the device failed
  /// or the first non-finite result. Slow.
  bool check = false;
  /// The host takes branches even if graphs of the device support them (gpu/step_graphs.h);
  /// for comparing the two.
  bool branches_by_host = false;
  /// The candidate algorithms of attention (GpuOptions::attention).
  AttentionAlgorithms attention = {};
  /// Where choices are kept; empty: there are no trials.
  std::string algorithm_folder = {};
};

/// A backend on `device`. Errors: kDevice if it cannot create two streams, or a third for
/// several ranks; those of AutotuneCache::Open.
Result<std::unique_ptr<Backend>> MakeGpuBackend(std::unique_ptr<Device> device,
                                                const BackendOptions& options);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_GPU_BACKEND_H_
