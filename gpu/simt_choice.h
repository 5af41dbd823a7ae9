#ifndef STOWAGE_GPU_SIMT_CHOICE_H_
#define STOWAGE_GPU_SIMT_CHOICE_H_

// The one word (gpu/simt.h) that a kernel has for the graph around it: which body of a
// branch runs (NewChoice in gpu/device.h).
//
//   if (ThreadId() == 0) SetChoice(p.choice, *p.index);
//
// Not in gpu/simt.h, because code that holds it cannot be loaded by every driver: one for
// CUDA 12.3 is the first that has the function behind it. ptxas leaves the call open, as
// it does that of printf, and the driver fills it in; no library is linked for it. So what
// uses this is in files of its own, which nothing else is loaded with.

#include <cstdint>

#include "gpu/simt.h"

namespace stowage::gpu {

#if !defined(__CUDACC__)

// In the emulator a choice is an address.
inline void SetChoice(uint64_t choice, uint32_t body) {
  *reinterpret_cast<uint32_t*>(choice) = body;
}

#elif CUDART_VERSION >= 12080

/// By one thread of a grid.
STOWAGE_DEVICE void SetChoice(uint64_t choice, uint32_t body) {
  cudaGraphSetConditional(choice, body);
}

#else

// Such a toolkit makes no branches in graphs (HasBranches of gpu/cuda_capture.h).
STOWAGE_DEVICE void SetChoice(uint64_t, uint32_t) {}

#endif

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_SIMT_CHOICE_H_
