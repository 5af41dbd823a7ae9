#ifndef STOWAGE_GPU_GRAPH_CHOICE_H_
#define STOWAGE_GPU_GRAPH_CHOICE_H_

// The kernels by which a graph chooses for itself, where the device has branches in graphs
// (gpu/device.h).
//
//   EnqueueGraphChoice(DType::kI32, index, 3, choice, queue);  // body 0, 1 or 2
//   EnqueueSoundChoice(choice, queue);  // body 0 in a step without a fault so far

#include <cstddef>

#include "gpu/device.h"
#include "gpu/queue.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

/// Sets `choice` to the one of `bodies` bodies that the scalar at `index`, of i32, i64 or
/// bool, stands for, true being the second; where there is none of this number, to none,
/// and the launch has a bad index.
void EnqueueGraphChoice(DType dtype, const std::byte* index, size_t bodies,
                        GraphChoice choice, Queue& queue);

/// Sets the choice of a branch with one body: it runs if no launch of the step has had a
/// bad index so far.
void EnqueueSoundChoice(GraphChoice choice, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_GRAPH_CHOICE_H_
