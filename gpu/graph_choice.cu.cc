#include "gpu/graph_choice.h"

#include "gpu/chosen_body.h"
#include "gpu/simt.h"
#include "gpu/simt_choice.h"

namespace stowage::gpu {
namespace {

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
