#ifndef STOWAGE_TESTS_CPU_BY_F32_KERNELS_H_
#define STOWAGE_TESTS_CPU_BY_F32_KERNELS_H_

// What a graph of f16 or bf16 is on kernels that compute in f32: the graph with f32
// in place of that type, in which every result is rounded to it and back.
//
//   RunOnCpu(graph, leaves).values == RunOnCpu(ByF32Kernels(graph), leaves).values

#include "ir/graph.h"

namespace stowage::testing {

/// f32 in place of f16 and bf16. What adamw_split_update is of bf16 for stays so:
/// precondition: there is none.
Graph ByF32Kernels(const Graph& graph);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_CPU_BY_F32_KERNELS_H_
