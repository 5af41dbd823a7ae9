#ifndef STOWAGE_CPU_CPU_BACKEND_H_
#define STOWAGE_CPU_CPU_BACKEND_H_

// Provides the default backend, which runs kernels on a thread pool with Eigen's vector packets.
// The order in which a kernel adds depends only on shapes, so results are bit-identical for any
// number of threads. A step allocates no memory, because the plan includes the kernels' workspaces.
//
//   std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 2});

#include <functional>
#include <memory>
#include <string>

#include "runtime/backend.h"

namespace stowage {

struct CpuOptions {
  // The number of threads, including the caller's. 0 or less means one per hardware thread. At most
  // ThreadPool::kMaxThreads (256) threads are used.
  int threads = 0;
  /// If true, every result of a kernel is checked for NaN and infinity. The first result that
  /// contains one ends the step with StepCode::kNonFinite. Collectives and copies to host memory
  /// then run synchronously. This is slow and intended for debugging.
  bool check = false;
  /// The CPU target to plan and run with (cpu/targets.h). If empty, uses the target of this
  /// process. If the target is unknown, or this processor cannot run it, Supports and Bind
  /// return an error for every graph.
  std::string target = {};
  /// The collectives of this rank, which must outlive the backend. If null, there is only one rank.
  Collectives* collectives = nullptr;
  /// The folder for the file of autotuned blockings of matmuls (cpu/blocking.h). When a program is
  /// bound, the candidates for each matmul that the file lacks are timed, in up to 16 MiB that are
  /// freed before the first step. A blocking changes no bit of the result. If empty, there is no
  /// autotuning.
  std::string blocking_folder = {};
  /// The folder for the files that hold host memory (runtime/host_file.h). The files are read and
  /// written asynchronously. If empty, host memory is allocated in RAM.
  std::string offload_folder = {};
  /// Receives warnings, one line each. The backend warns if blockings cannot be stored (because the
  /// folder cannot be written or the file is damaged), if the system starts fewer threads than
  /// requested, and if offload_folder is itself in RAM (tmpfs). May be null.
  std::function<void(const std::string&)> note = {};
};

std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_CPU_CPU_BACKEND_H_
