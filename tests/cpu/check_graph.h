#ifndef STOWAGE_TESTS_CPU_CHECK_GRAPH_H_
#define STOWAGE_TESTS_CPU_CHECK_GRAPH_H_

// Kernels at sizes of a test's own, against the interpreter.
//
//   CheckGraph("relu", kF32.tolerance, [](GraphBuilder& g) {
//     g.Output("y", Relu(g.Input("x", DType::kF32, {40001})));
//   });

#include <cstdint>
#include <functional>
#include <string>

#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "tests/support/interpret.h"

namespace stowage {

using Build = std::function<void(GraphBuilder&)>;

/// The graph that `build` makes, which must be good.
Graph MakeGraph(const std::string& name, const Build& build);

/// Values for all leaves, the same each time. Floats between -1 and 1: f32 numbers, or
/// multiples of 1/64, which all float types hold. Integers in [0, limit).
Tensors RandomLeaves(const Graph& graph, int64_t limit = 7);

struct Precision {
  DType dtype;
  double tolerance;
};
inline constexpr Precision kF32 = {DType::kF32, 2e-5};
inline constexpr Precision kF64 = {DType::kF64, 1e-12};

/// The laws of CheckAgainstInterpreter (tests/cpu/run_graph.h), on random leaves.
void CheckGraph(const std::string& name, double tolerance, const Build& build,
                int64_t limit = 7);

}  // namespace stowage

#endif  // STOWAGE_TESTS_CPU_CHECK_GRAPH_H_
