#ifndef STOWAGE_TESTS_GPU_RUN_GRAPH_H_
#define STOWAGE_TESTS_GPU_RUN_GRAPH_H_

// Runs graphs with the GPU kernels, without a plan, a session or a GPU. Kernels run in the emulator
// or in the PTX interpreter, depending on how the program is linked (tests/gpu/grid_runner.h).
// Every value that is not a view, and every workspace, has a separate buffer between guards, which
// is NaN until it is written.
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
  /// Selects the order in which threads run. 0 is the natural order.
  uint64_t seed = 0;
  bool warp_by_warp = false;
  /// Shifts the leaves that no node updates by a few elements off their alignment, since a view may
  /// start at any element.
  bool misaligned = false;
  /// Writes result 0 in place over an operand wherever the op allows it.
  bool overwrite = false;
  /// If true, the queue supports no matmul epilogue except an addend.
  bool refuse_epilogues = false;
  /// The attention algorithm, used for every launch that it supports.
  gpu::AttentionAlgorithm attention = gpu::AttentionAlgorithm::kWarps;
};

struct GpuRun {
  /// The first error, such as an out-of-bounds write, or "" if there is none.
  std::string wrong;
  bool fault = false;  // an index was out of range
  Tensors values;      // the graph's outputs in row-major order
  std::map<std::string, std::vector<std::byte>> bytes;  // the same, as bytes
  int overwritten = 0;  // results that were written in place
  int64_t grids = 0;    // kernels launched
};

/// Runs every node in order. Consecutive nodes of the same op are enqueued in one call if the
/// kernel supports that.
GpuRun RunInEmulator(const Graph& graph, const Tensors& leaves,
                     const GpuRunOptions& options = {});

/// Checks (doctest) the rules that every kernel obeys, and returns the number of runs.
///
/// Outputs agree with the interpreter under Rounding::kTo16Bits within `tolerance`, which
/// LargestError defines. Nothing is written out of bounds. The output bytes are the same in three
/// shuffled orders of blocks and threads, and in one order that runs warp by warp. In each shuffled
/// order they are also the same with misaligned leaves and with results written in place.
///
/// If TakesAllInstances() is false (tests/support/instances.h), only the first shuffled order
/// runs. If TakesAllOrders() is false, that order runs only with misaligned leaves and with
/// results written in place.
///
/// Attention in 16 bits is checked a second time with warpgroup matmuls. With misaligned leaves, it
/// must then give the bytes of the first check. If the gradient can be computed with five matmuls,
/// it is checked a third time with them. Matmuls with epilogues also run with a queue that refuses
/// epilogues.
int CheckAgainstInterpreter(const Graph& graph, const Tensors& leaves,
                            double tolerance);

// The next functions build graphs and leaves for tests of kernels. The element type represents the
// numbers in leaves exactly, so only the kernel rounds.
//
//   const Graph graph = MakeGraph("softmax", [](GraphBuilder& g) {
//     g.Output("y", Softmax(g.Input("x", DType::kBF16, {3, 7})));
//   });
//   CheckAgainstInterpreter(graph, RandomLeaves(graph),
//                           ToleranceOf(DType::kBF16));

/// The element types that GPU kernels compute with.
inline constexpr std::array kComputedDTypes = {DType::kF32, DType::kBF16,
                                               DType::kF16};

/// Returns the tolerance for a result that is computed in f32 and rounded to `dtype` once,
/// relative to its largest element. For 16-bit types it is the distance between adjacent numbers,
/// since near a tie the interpreter may round in the other direction.
double ToleranceOf(DType dtype);

struct LeafRange {
  double low = -1;
  double high = 1;
  int64_t index_limit = 1;  // integers are in [0, index_limit)
};

/// Returns uniform random numbers for every leaf, which depend only on the arguments.
Tensors RandomLeaves(const Graph& graph, const LeafRange& range = {},
                     uint64_t seed = 1);

/// Returns the graph that `build` adds to a builder. Aborts if the graph is invalid.
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
