#ifndef STOWAGE_GPU_GPU_NEEDS_H_
#define STOWAGE_GPU_GPU_NEEDS_H_

// What a plan must hold for a GPU beside the values of its graph. No device is
// needed to say so, nor a build with CUDA: a plan for a GPU can be made anywhere.
//
//   Plan plan = *PlanMemory(step, {.device = GpuNeeds()});

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "runtime/backend.h"

namespace stowage {

/// Scratch bytes of the kernel for `node`; 0 where there is none.
Bytes GpuWorkspace(const Graph& graph, const Node& node);

/// The step record, and two slots for the inputs of `graph`.
Bytes GpuReserve(const Graph& graph, Bytes alignment);

/// What is run in one node.
Fusions GpuFusions();

/// All of these, for PlanOptions::device: of any GPU, none of which need be there.
DeviceNeeds GpuNeeds();

/// Error kUnsupported naming the first node that there is no kernel for.
Status GpuSupports(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_GPU_GPU_NEEDS_H_
