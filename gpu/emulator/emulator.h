#ifndef STOWAGE_GPU_EMULATOR_EMULATOR_H_
#define STOWAGE_GPU_EMULATOR_EMULATOR_H_

// Runs kernels compiled by an ordinary C++ compiler (gpu/simt.h): a fiber per GPU thread, one
// block after the other. Where a thread waits for others, in SyncThreads or in a function of
// its warp, another one runs, chosen at random: a kernel that lacks a barrier gives wrong
// results under some seed, even if it is right in the natural order.
//
// Errors are reported with the name of the kernel: an index outside a shared array; bytes
// written next to one; a misaligned address; threads that wait in different places, or for
// lanes that never come. Shared memory is full of NaN when a block starts.
//
//   EmulatorOptions options{.seed = 7};
//   RunGrid(call, options);

#include <cstdint>
#include <string>

#include "gpu/queue.h"

namespace stowage::gpu {

struct EmulatorOptions {
  /// 0: blocks and threads in their natural order, and copies to shared memory
  /// (CopyAsyncZero16, CopyBox) at once. Others: shuffled, and the bytes of such copies
  /// are NaN from the call to the CopyAsyncWait or AwaitBytes that waits for them.
  uint64_t seed = 0;
  /// Warps are chosen at random: one runs until all of its lanes wait for the block or have
  /// returned.
  bool warp_by_warp = false;
  /// Receives the error of a kernel, the rest of whose launch is then not run. Null: the error
  /// is printed, and the process aborts.
  std::string* report = nullptr;
};

/// Runs all blocks of `call`, in this thread.
void RunGrid(const KernelCall& call, const EmulatorOptions& options = {});

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_EMULATOR_EMULATOR_H_
