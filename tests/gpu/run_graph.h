#ifndef STOWAGE_TESTS_GPU_RUN_GRAPH_H_
#define STOWAGE_TESTS_GPU_RUN_GRAPH_H_

// Runs graphs on the GPU kernels alone, as the program was linked in the emulator or
// on PTX (tests/gpu/grid_runner.h): no plan, no session, no GPU. Every value that owns bytes,
// and every workspace, has memory of its own between guards, full of NaN before it is written.
//
//   GpuRun run = RunInEmulator(graph, leaves, {.seed = 7});
//   run.values["y0"];
//
//   CheckAgainstInterpreter(graph, leaves, 1e-5);

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gpu/queue.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "tests/support/interpret.h"

namespace stowage {

struct GpuRunOptions {
  /// The order of the emulator's threads; 0: natural.
  uint64_t seed = 0;
  bool warp_by_warp = false;
  /// Moves leaves that nothing updates off their alignment, by elements, as a
  /// view may lie anywhere.
  bool misaligned = false;
  /// Places result 0 over an operand wherever its op allows that.
  bool overwrite = false;
  /// The queue supports no epilogue of a matmul but an addend.
  bool refuse_epilogues = false;
  /// The algorithm of attention, where it supports a launch.
  gpu::AttentionAlgorithm attention = gpu::AttentionAlgorithm::kWarps;
};

struct GpuRun {
  /// The emulator's report, or bytes that were written out of bounds; empty: no fault.
  std::string wrong;
  bool fault = false;  // an index was out of range
  Tensors values;      // of the graph's outputs, in row-major order
  std::map<std::string, std::vector<std::byte>> bytes;  // the same, as they lie
  int overwritten = 0;  // results that lay over an operand
  int64_t grids = 0;    // kernels launched
};

/// Runs every node in order. Consecutive nodes of one op are enqueued together
/// where the kernel can.
GpuRun RunInEmulator(const Graph& graph, const Tensors& leaves,
                     const GpuRunOptions& options = {});

/// The laws of every kernel (doctest checks): outputs agree with the
/// interpreter, which rounds as they do, within `tolerance` (relative to the
/// largest element of an output, or 1), and are the same bytes under three
/// shuffled orders of blocks and threads and one that goes warp by warp, with
/// leaves anywhere, and over their operands; nothing is written outside. Under the
/// address sanitizer the first of the shuffled orders alone
/// (tests/support/instances.h), and where TakesAllOrders is false that one with leaves
/// anywhere and over operands. Attention of 16 bits is held to them twice, the second
/// time by products of warpgroups, save where leaves lie anywhere: the bytes are then those
/// of the first time; and a third time where its gradient can take five products. Returns
/// how many runs that took.
int CheckAgainstInterpreter(const Graph& graph, const Tensors& leaves,
                            double tolerance);

// Graphs and leaves for tests of kernels. Leaves hold numbers that the element type represents
// exactly, so that only the kernel rounds.
//
//   const Graph graph = MakeGraph("softmax", [](GraphBuilder& g) {
//     g.Output("y", Softmax(g.Input("x", DType::kBF16, {3, 7})));
//   });
//   CheckAgainstInterpreter(graph, RandomLeaves(graph),
//                           ToleranceOf(DType::kBF16));

/// The element types that GPU kernels compute with.
inline constexpr std::array kComputedDTypes = {DType::kF32, DType::kBF16,
                                               DType::kF16};

/// The tolerance of a result that is computed in f32 and rounded to `dtype` once, relative to its
/// largest element. In 16 bits it is the distance of neighbours, since near a tie the interpreter
/// may round the other way.
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

#endif  // STOWAGE_TESTS_GPU_RUN_GRAPH_H_
