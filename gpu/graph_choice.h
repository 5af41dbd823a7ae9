#ifndef STOWAGE_GPU_GRAPH_CHOICE_H_
#define STOWAGE_GPU_GRAPH_CHOICE_H_

// The kernels that set the choices of branches inside a graph (gpu/device.h).
//
//   EnqueueGraphChoice(DType::kI32, index, 3, choice, queue);  // body 0, 1 or 2
//   EnqueueSoundChoice(choice, queue);  // body 0 in a step without a fault so far

#include <cstddef>

#include "gpu/device.h"
#include "gpu/queue.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

/// Sets `choice` to the body that the scalar at `index` selects: i32, i64, or bool with true
/// for body 1. If it is not in [0, bodies), no body runs and the launch reports a fault.
void EnqueueGraphChoice(DType dtype, const std::byte* index, size_t bodies,
                        GraphChoice choice, Queue& queue);

/// Sets the choice of a branch with one body, which runs if no launch of the step has
/// reported a fault so far.
void EnqueueSoundChoice(GraphChoice choice, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_GRAPH_CHOICE_H_
