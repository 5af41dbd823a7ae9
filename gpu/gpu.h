#ifndef STOWAGE_GPU_GPU_H_
#define STOWAGE_GPU_GPU_H_

// Runs sessions on a CUDA device. This is the umbrella header of the package.
//
// Plan with the requirements of a GPU (gpu/gpu_needs.h, or the backend's own), in bf16 or f32, and
// pass the plan to a session on this backend. The arena is one allocation on the device, of
// exactly the planned bytes.
//
//   Result<std::unique_ptr<Backend>> gpu = MakeGpuBackend();
//   if (!gpu.ok()) Print(gpu.error().message);  // use the CPU
//
// A device other than the first must be used from one thread only.

#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/gpu_needs.h"  // IWYU pragma: export
#include "gpu/kernel.h"     // IWYU pragma: export
#include "gpu/queue.h"      // IWYU pragma: export
#include "runtime/backend.h"

namespace stowage {

struct GpuOptions {
  /// The driver's device ordinal. With `collectives`, it is the number of this rank on its host,
  /// and is reduced modulo the number of visible devices.
  int device = 0;
  /// The path of the cuBLASLt library, or of its folder. If empty, standard paths are searched
  /// (docs/guides/gpu.md).
  std::string matmul_library;
  /// The folder of the autotune caches of matmuls and of attention. Processes that share it compute
  /// the same bits. If empty, there is no autotuning, and the first candidates are used
  /// (docs/guides/gpu.md).
  std::string algorithm_folder;
  /// If true, steps run op by op and wait after each. An error names the op at which the device
  /// failed or that produced the first non-finite result. This is slow.
  bool check = false;
  /// The candidate algorithms of 16-bit attention (docs/guides/gpu.md). Algorithms that the device
  /// does not support are ignored. If there are several, warp-level matmuls are added to the
  /// candidates. When a program is bound, the results of the candidates are compared with the
  /// warp-level results, and the fastest that agrees is chosen for each shape. A single algorithm
  /// is used without a trial. If empty, the candidates are the algorithms that were correct on a
  /// device of this kind. An algorithm that has not run on any device may make the device unusable
  /// for this process.
  gpu::AttentionAlgorithms attention = {};
  /// The host collectives that connect the ranks of a step, or null for a single rank. All ranks
  /// must create their backends at the same time. The collectives are used during setup only.
  /// Afterwards, NCCL transfers the messages of a step between the GPUs.
  Collectives* collectives = nullptr;
};

/// Returns a backend for a device. Returns kDevice if this build has no CUDA, if the driver or the
/// device is missing or too old, or if cuBLASLt or, for several ranks, NCCL is missing, has an
/// incompatible version or fails. Returns kRankLost if another rank was lost. Returns kIo if an
/// autotune cache cannot be read, and kInvalidArgument if it is damaged, or if several attention
/// algorithms are given without an algorithm folder.
Result<std::unique_ptr<Backend>> MakeGpuBackend(const GpuOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_GPU_GPU_H_
