#ifndef STOWAGE_CPU_CPU_BACKEND_H_
#define STOWAGE_CPU_CPU_BACKEND_H_

// Provides the default backend, which runs kernels on a thread pool with Eigen's vector
// packets. Work is divided by shape, never by thread count, so results are bit-identical for
// any number of threads. A step allocates nothing, because the plan provides the kernels'
// scratch.
//
//   std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 2});

#include <functional>
#include <memory>
#include <string>

#include "runtime/backend.h"

namespace stowage {

struct CpuOptions {
  // The number of threads, including the caller's. 0 means one per hardware thread.
  int threads = 0;
  /// Checks every result for NaN and infinity. The first one found ends the step with
  /// kNonFinite. This is slow and intended for debugging.
  bool check = false;
  /// The CPU target to plan and run with (cpu/targets.h). If empty, uses the target of this
  /// process. If the target is unknown, or this processor cannot run it, Supports and Bind
  /// return an error for every graph.
  std::string target = {};
  /// The collectives of this rank. Must outlive the backend. Null means that there is only one
  /// rank.
  Collectives* collectives = nullptr;
  /// The folder for the autotuned blockings of matmuls. When a shape is bound for the first
  /// time, its candidates are timed, in up to 16 MiB that are freed before the first step. A
  /// blocking changes no bit of the result. If empty, there is no autotuning.
  std::string blocking_folder = {};
  /// The folder for the files that hold host memory (runtime/host_file.h). The files are read
  /// and written asynchronously. If empty, host memory is in RAM.
  std::string offload_folder = {};
  /// Receives warnings, one line each. The reasons are that blockings cannot be kept (because
  /// the folder cannot be written or a file is damaged), that the system provides fewer threads
  /// than requested, and that offload_folder is itself in RAM. May be null.
  std::function<void(const std::string&)> note = {};
};

std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_CPU_CPU_BACKEND_H_
