#ifndef STOWAGE_CPU_CPU_BACKEND_H_
#define STOWAGE_CPU_CPU_BACKEND_H_

// The default backend: kernels over Eigen's vector packets on a small pool of threads.
//
// Work is split by shape, never by thread count, so results are bit-identical
// for any number of threads. A step allocates nothing: kernels take their
// scratch from the plan.
//
//   std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 2});

#include <functional>
#include <memory>
#include <string>

#include "runtime/backend.h"

namespace stowage {

struct CpuOptions {
  int threads = 0;  // the caller's included; 0: one per hardware thread
  /// Looks at every result for NaN and infinity, and ends the step with kNonFinite
  /// at the first; slow. For finding what diverges.
  bool check = false;
  /// The CPU target whose kernels it plans and runs with (cpu/targets.h); empty: that of
  /// this process. An unknown target, or one that this processor cannot run, is an error
  /// that Supports and Bind return for every graph.
  std::string target = {};
  /// What joins this rank to the others of a step; null: there is one rank. Must
  /// outlive the backend.
  Collectives* collectives = nullptr;
  /// The folder where blockings of products are kept. The first time that a shape is
  /// bound, the ways to cut it are timed, in up to 16 MiB that are freed before the first
  /// step; bits are the same with any. Empty: no time is taken, and nothing kept.
  std::string blocking_folder = {};
  /// The folder of the files in which host memory lies (runtime/host_file.h), which are
  /// read and written beside the launches that do not wait for them. Empty: host memory
  /// is memory.
  std::string offload_folder = {};
  /// Told, a line for people, why nothing is kept there: a folder that cannot be written, a
  /// file that is damaged; then shapes are timed for this backend alone. And how many
  /// threads there are, where the system gives fewer; and that the folder of host memory is
  /// itself in memory. Null: nobody is.
  std::function<void(const std::string&)> note = {};
};

std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_CPU_CPU_BACKEND_H_
