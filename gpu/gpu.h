#ifndef STOWAGE_GPU_GPU_H_
#define STOWAGE_GPU_GPU_H_

// Provides the backend that runs sessions (runtime/session.h) on a CUDA device. This is the
// umbrella header of the package.
//
// A plan for this backend must be computed with the requirements of a GPU, which GpuNeeds
// (gpu/gpu_needs.h) and the backend provide. The model must compute in f32, bf16 or f16. The arena
// is one allocation on the device, of exactly the planned bytes.
//
//   Result<std::unique_ptr<Backend>> gpu = MakeGpuBackend();
//   if (!gpu.ok()) Print(gpu.error().message);  // use the CPU
//
// A backend for a device other than device 0 must be used only from the thread that created it.

#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/gpu_needs.h"  // IWYU pragma: export
#include "gpu/kernel.h"     // IWYU pragma: export
#include "gpu/queue.h"      // IWYU pragma: export
#include "runtime/backend.h"

namespace stowage {

struct GpuOptions {
  /// The driver's device ordinal. If `collectives` is set, `device` is the number of this rank
  /// among the ranks of its host, and the ordinal is `device` modulo the number of visible devices.
  int device = 0;
  /// The path of the cuBLASLt library, or of its folder. If empty, standard paths are searched
  /// (docs/guides/gpu.md).
  std::string matmul_library;
  /// The folder of the autotune caches of matmuls and of attention. Processes that share the folder
  /// use the same algorithms and compute the same bits. If empty, there is no autotuning, and the
  /// first candidates are used (docs/guides/gpu.md).
  std::string algorithm_folder;
  /// If true, the ops of a step run one at a time, and their results are checked. An error names
  /// the op at which the device failed or that produced the first non-finite result. For an op in a
  /// body, it names the loop or cond. This is slow.
  bool check = false;
  /// The candidate algorithms of 16-bit attention (docs/guides/gpu.md). Algorithms that the device
  /// does not support are ignored. If there are several, kWarps is added to the candidates. When a
  /// program is bound, the results of the candidates are compared with the results of kWarps, and
  /// the fastest candidate that agrees is chosen for each shape. A single algorithm is used without
  /// a trial, for the launches that it supports. If empty, the candidates are the algorithms whose
  /// results have been verified on a device of this kind. Other algorithms may make the device
  /// unusable for this process.
  gpu::AttentionAlgorithms attention = {};
  /// The host collectives that connect the ranks of a step, or null for a single rank.
  /// MakeGpuBackend waits until all ranks have called it. It uses the collectives to connect the
  /// GPUs. Afterwards, NCCL transfers the messages of a step between them.
  Collectives* collectives = nullptr;
};

/// Returns a backend for a device. Returns kDevice if this build has no CUDA, if the driver or the
/// device is missing or too old, if NVIDIA_TF32_OVERRIDE is 1, or if cuBLASLt or, with
/// `collectives`, NCCL is missing, has an incompatible version or fails. Returns kRankLost if
/// another rank was lost. Returns kIo if an autotune cache cannot be read. Returns kInvalidArgument
/// if an autotune cache is damaged, or if there are several candidates for attention, of which at
/// least two are given in `attention`, and no algorithm folder.
Result<std::unique_ptr<Backend>> MakeGpuBackend(const GpuOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_GPU_GPU_H_
