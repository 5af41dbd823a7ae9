#ifndef STOWAGE_CPU_CPU_H_
#define STOWAGE_CPU_CPU_H_

// The umbrella header of the package: the CPU backend, its targets, and kernels for custom ops
// (ir/op_def.h).
//
//   const std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 2});

#include "cpu/cpu_backend.h"  // IWYU pragma: export
#include "cpu/kernel.h"       // IWYU pragma: export
#include "cpu/targets.h"      // IWYU pragma: export
#include "cpu/thread_pool.h"  // IWYU pragma: export

#endif  // STOWAGE_CPU_CPU_H_
