#include "gpu/kernels/dispatch.h"
#include "gpu/simt.h"
#include "gpu/step_kernels.h"

namespace stowage::gpu {
namespace {

// SetChoice(choice, body), by one thread: which body of a branch of the graph runs (NewChoice
// in gpu/device.h).
//
// Drivers before CUDA 12.3 cannot load code that calls it, so only this source does. ptxas
// leaves the call unresolved, as it does those of printf, and the driver resolves it; no
// library is linked for it.

#if !defined(__CUDACC__)

// In the emulator a choice is an address.
void SetChoice(uint64_t choice, uint32_t body) {
  *reinterpret_cast<uint32_t*>(choice) = body;
}

#elif CUDART_VERSION >= 12080

STOWAGE_DEVICE void SetChoice(uint64_t choice, uint32_t body) {
  cudaGraphSetConditional(choice, body);
}

#else

// Such a toolkit has no branches in graphs (HasBranches of gpu/cuda_capture.h).
STOWAGE_DEVICE void SetChoice(uint64_t, uint32_t) {}

#endif

struct GraphChoiceParams {
  BodyIndex index;
  uint64_t choice;
};

STOWAGE_KERNEL(kWarpSize)
ChooseInGraph(STOWAGE_PARAMS(GraphChoiceParams) p) {
  if (ThreadId() == 0) SetChoice(p.choice, ChosenBody(p.index));
}

struct SoundChoiceParams {
  const uint32_t* fault;
  uint64_t choice;
};

STOWAGE_KERNEL(kWarpSize) ChooseIfSound(STOWAGE_PARAMS(SoundChoiceParams) p) {
  if (ThreadId() == 0) SetChoice(p.choice, *p.fault == kNoFault ? 0 : 1);
}

}  // namespace

void EnqueueGraphChoice(DType dtype, const std::byte* index, size_t bodies,
                        GraphChoice choice, Queue& queue) {
  const GraphChoiceParams params = {
      {index, dtype, static_cast<int64_t>(bodies), queue.fault()},
      choice.handle};
  LaunchKernel(queue, "choose in graph", ChooseInGraph, params, {}, kWarpSize);
}

void EnqueueSoundChoice(GraphChoice choice, Queue& queue) {
  LaunchKernel(queue, "choose if sound", ChooseIfSound,
               {queue.fault().word, choice.handle}, {}, kWarpSize);
}

}  // namespace stowage::gpu
