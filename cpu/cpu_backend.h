#ifndef STOWAGE_CPU_CPU_BACKEND_H_
#define STOWAGE_CPU_CPU_BACKEND_H_

// The default backend: kernels on Eigen's vector packets and a thread pool. Work is divided
// by shape, never by thread count, so results are bit-identical for any number of threads.
// A step allocates nothing: the plan provides the kernels' scratch.
//
//   std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 2});

#include <functional>
#include <memory>
#include <string>

#include "runtime/backend.h"

namespace stowage {

struct CpuOptions {
  int threads = 0;  // including the caller's; 0: one per hardware thread
  /// Checks every result for NaN and infinity, and ends the step with kNonFinite at the
  /// first. Slow; for debugging.
  bool check = false;
  /// The CPU target to plan and run with (cpu/targets.h); empty: that of this process. For
  /// an unknown target, or one that this processor cannot run, Supports and Bind return an
  /// error for every graph.
  std::string target = {};
  /// The collectives of this rank; null: there is one rank. Must outlive the backend.
  Collectives* collectives = nullptr;
  /// The folder of the autotuned blockings of matmuls. When a shape is bound for the first
  /// time, its candidates are timed, in up to 16 MiB that are freed before the first step;
  /// a blocking changes no bit. Empty: no autotuning.
  std::string blocking_folder = {};
  /// The folder of the files that hold host memory (runtime/host_file.h); they are read and
  /// written asynchronously. Empty: host memory is in RAM.
  std::string offload_folder = {};
  /// Receives warnings, one line each: why blockings are not kept (a folder that cannot be
  /// written, a damaged file), that the system gives fewer threads, that offload_folder is
  /// itself in RAM. May be null.
  std::function<void(const std::string&)> note = {};
};

std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_CPU_CPU_BACKEND_H_
