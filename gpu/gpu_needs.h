#ifndef STOWAGE_GPU_GPU_NEEDS_H_
#define STOWAGE_GPU_GPU_NEEDS_H_

// Provides the requirements of a GPU for planning: workspaces, reserve and fusions. Neither a
// device nor a build with CUDA is needed, so plans for a GPU can be computed on any machine.
//
//   Plan plan = *PlanMemory(step, {.device = GpuNeeds()});

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "runtime/backend.h"

namespace stowage {

/// Returns the workspace bytes of the kernel for `node`, or 0 if there is no kernel.
Bytes GpuWorkspace(const Graph& graph, const Node& node);

/// Returns the bytes of the step record and of two slots for the inputs of `graph`.
Bytes GpuReserve(const Graph& graph, Bytes alignment);

/// Returns the fusions that the kernels support.
Fusions GpuFusions();

/// Returns all requirements, for PlanOptions::device.
DeviceNeeds GpuNeeds();

/// Returns kUnsupported if a node has no kernel. The error names the first such node.
Status GpuSupports(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_GPU_GPU_NEEDS_H_
