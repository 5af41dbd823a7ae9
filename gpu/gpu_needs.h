#ifndef STOWAGE_GPU_GPU_NEEDS_H_
#define STOWAGE_GPU_GPU_NEEDS_H_

// The requirements of a GPU on a plan: workspaces, reserve and fusions. They need neither a
// device nor a build with CUDA, so a plan for a GPU can be made anywhere.
//
//   Plan plan = *PlanMemory(step, {.device = GpuNeeds()});

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "runtime/backend.h"

namespace stowage {

/// Workspace bytes of the kernel for `node`; 0 if there is no kernel.
Bytes GpuWorkspace(const Graph& graph, const Node& node);

/// Bytes of the step record and two slots for the inputs of `graph`.
Bytes GpuReserve(const Graph& graph, Bytes alignment);

/// The fusions that the kernels support.
Fusions GpuFusions();

/// All of these, for PlanOptions::device.
DeviceNeeds GpuNeeds();

/// Error kUnsupported naming the first node without a kernel.
Status GpuSupports(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_GPU_GPU_NEEDS_H_
