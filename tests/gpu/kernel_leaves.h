#ifndef STOWAGE_TESTS_GPU_KERNEL_LEAVES_H_
#define STOWAGE_TESTS_GPU_KERNEL_LEAVES_H_

// Graphs and leaves for the tests of kernels: numbers that the element type can
// hold, so that nothing but the kernel rounds.
//
//   const Graph graph = MakeGraph("softmax", [](GraphBuilder& g) {
//     g.Output("y", Softmax(g.Input("x", DType::kBF16, {3, 7})));
//   });
//   CheckAgainstInterpreter(graph, RandomLeaves(graph),
//                           ToleranceOf(DType::kBF16));

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "base/check.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "tests/support/interpret.h"

namespace stowage {

/// The element types that GPU kernels compute with.
inline constexpr std::array kComputedDTypes = {DType::kF32, DType::kBF16,
                                               DType::kF16};

/// Of a result that is computed in f32 and rounded to `dtype` once, relative to
/// its largest element: in 16 bits the distance of neighbours, for near a tie the
/// interpreter may round to the other one.
double ToleranceOf(DType dtype);

struct LeafRange {
  double low = -1;
  double high = 1;
  int64_t index_limit = 1;  // integers are in [0, index_limit)
};

/// Uniform numbers for every leaf; the same for the same arguments.
Tensors RandomLeaves(const Graph& graph, const LeafRange& range = {},
                     uint64_t seed = 1);

/// The graph that `build` makes of a builder.
template <typename F>
Graph MakeGraph(const std::string& name, F&& build) {
  GraphBuilder g(name);
  build(g);
  Result<Graph> graph = g.Finish();
  STOWAGE_CHECK(graph.ok());
  return *std::move(graph);
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_GPU_KERNEL_LEAVES_H_
