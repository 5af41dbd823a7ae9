#ifndef STOWAGE_GPU_GPU_H_
#define STOWAGE_GPU_GPU_H_

// The package's umbrella header: sessions on a CUDA device.
//
// Plan with the requirements of a GPU (gpu/gpu_needs.h, or the backend's own), bf16 or f32,
// and pass the plan to a session on this backend. The arena is one allocation on the device,
// of exactly the planned bytes.
//
//   Result<std::unique_ptr<Backend>> gpu = MakeGpuBackend();
//   if (!gpu.ok()) Print(gpu.error().message);  // why not; use the CPU
//
// Use a device other than the first from one thread only.

#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/gpu_needs.h"  // IWYU pragma: export
#include "gpu/kernel.h"     // IWYU pragma: export
#include "gpu/queue.h"      // IWYU pragma: export
#include "runtime/backend.h"

namespace stowage {

struct GpuOptions {
  /// The driver's number of the device; with `collectives`, this rank's number on its host,
  /// modulo the devices that it sees.
  int device = 0;
  /// The file of cuBLASLt, or its folder; empty: it is searched for (docs/guides/gpu.md).
  std::string matmul_library;
  /// Where the autotuned algorithms of matmuls and of attention are kept, so that other
  /// processes compute the same bits; empty: no autotuning, the first candidates are used
  /// (docs/guides/gpu.md).
  std::string algorithm_folder;
  /// Runs every step op by op, waits after each, and names the op at which the device failed
  /// or the first non-finite result. Slow.
  bool check = false;
  /// The candidate algorithms of 16-bit attention (docs/guides/gpu.md), as far as the device
  /// supports them. Several, to which matmuls by warps are added, are compared with those
  /// when a program is bound, and the fastest that agrees is kept for each shape; a single
  /// one is used without a trial. Empty: those that were correct on a device of this kind. An
  /// algorithm that no device has run may break the device for this process.
  gpu::AttentionAlgorithms attention = {};
  /// Joins this rank to the others of a step, each of which makes a backend at the same time;
  /// null for a single rank. Their GPUs are joined by NCCL, which then exchanges a step's
  /// messages; this is used for the set-up only.
  Collectives* collectives = nullptr;
};

/// The backend of a device. Errors: kDevice if this build has no CUDA; the driver or the
/// device is missing or too old; cuBLASLt or, for several ranks, NCCL is missing or of
/// another version; NCCL's own. kIo and kInvalidArgument if a file of algorithms cannot be
/// read or is damaged.
Result<std::unique_ptr<Backend>> MakeGpuBackend(const GpuOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_GPU_GPU_H_
