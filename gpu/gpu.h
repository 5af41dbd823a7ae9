#ifndef STOWAGE_GPU_GPU_H_
#define STOWAGE_GPU_GPU_H_

// The package's umbrella header: sessions on a CUDA device.
//
// Plan with the needs of a GPU (gpu/gpu_needs.h, or the backend's own), bf16 or
// f32, and hand the plan to a session on this backend. The arena is one
// allocation on the device, of exactly the planned bytes.
//
//   Result<std::unique_ptr<Backend>> gpu = MakeGpuBackend();
//   if (!gpu.ok()) Print(gpu.error().message);  // why not; use the CPU
//
// Use a device other than the first from one thread only.

#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/attention_algorithms.h"  // IWYU pragma: export
#include "gpu/gpu_needs.h"             // IWYU pragma: export
#include "gpu/kernel.h"                // IWYU pragma: export
#include "runtime/backend.h"

namespace stowage {

struct GpuOptions {
  /// Its number, as the driver counts; with `collectives`, this rank's number on its
  /// host, which takes a device of those that it sees.
  int device = 0;
  /// The file of cuBLASLt, or its folder; empty: it is looked for, see
  /// docs/guides/gpu.md.
  std::string matmul_library;
  /// Where the algorithms of matrix products are kept, once the library's proposals were
  /// timed, and the ways of attention, so that other processes compute the same bits;
  /// empty: the first proposals and ways are taken (docs/guides/gpu.md).
  std::string algorithm_folder;
  /// Runs every step op by op, waits after each, and names the op at which the
  /// device failed or the first result that is not finite. Slow.
  bool check = false;
  /// The ways in which attention of 16 bits may be computed (docs/guides/gpu.md), as far as the
  /// device has them. Several, to which products of warps are added, are compared with
  /// these where a program is bound, and the fastest that agrees is kept for each shape;
  /// one alone is taken untried; of none, products of warps. Empty: those that a device of
  /// this kind was seen to compute rightly. A way that no device has run may break the
  /// device for this process.
  gpu::AttentionAlgorithms attention = {};
  /// What has joined this rank to the others of a step, of whom each makes a backend at
  /// the same time; null where there is one. Their GPUs are joined by NCCL, by which a
  /// step's exchanges go from GPU to GPU; this is not used again.
  Collectives* collectives = nullptr;
};

/// The backend of a device. Errors, all kDevice: this build has no CUDA; no
/// driver, or one that is too old; no such device, or one that is too old;
/// cuBLASLt or, for several ranks, NCCL is missing or of another version; NCCL's own.
/// kIo and kInvalidArgument for a file of algorithms that cannot be read, or is damaged.
Result<std::unique_ptr<Backend>> MakeGpuBackend(const GpuOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_GPU_GPU_H_
