#ifndef STOWAGE_GPU_GPU_NEEDS_H_
#define STOWAGE_GPU_GPU_NEEDS_H_

// Provides the requirements of a GPU for planning: the workspaces of kernels, the reserve, which is
// the memory of the runtime in the arena, and the supported fusions. Neither a device nor a build
// with CUDA is required, so plans for a GPU can be computed on any machine.
//
//   Plan plan = *PlanMemory(step, {.device = GpuNeeds()});

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "runtime/backend.h"

namespace stowage {

/// Returns the workspace bytes of the kernel for `node`, or 0 if there is no kernel for it.
Bytes GpuWorkspace(const Graph& graph, const Node& node);

/// Returns the bytes of the reserve: the step record and two slots for the inputs of `graph`
/// (gpu/step_kernels.h).
Bytes GpuReserve(const Graph& graph, Bytes alignment);

/// Returns the fusions that the kernels support.
Fusions GpuFusions();

/// Returns all of these requirements, for PlanOptions::device.
DeviceNeeds GpuNeeds();

/// Returns kUnsupported if the kernels do not support a node, also in a body. The error names the
/// first unsupported node.
Status GpuSupports(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_GPU_GPU_NEEDS_H_
