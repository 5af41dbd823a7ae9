#ifndef STOWAGE_TESTS_CPU_RUN_GRAPH_H_
#define STOWAGE_TESTS_CPU_RUN_GRAPH_H_

// Runs graphs with the CPU kernels, without a plan or a session. Every value
// that is not a view, and every workspace, has a separate buffer between
// guards, which is NaN until it is written.
//
//   CpuRun run = RunOnCpu(graph, leaves, {.threads = 2});
//   run.values["y0"];
//
//   CheckAgainstInterpreter(graph, leaves, 1e-5);

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"
#include "tests/support/interpret.h"

namespace stowage {

struct CpuRunOptions {
  int threads = 1;
  /// Misaligns buffers, which otherwise start at multiples of 64 bytes. The
  /// offset is a multiple of 8 bytes and differs from buffer to buffer.
  bool misaligned = false;
  /// Writes result 0 in place over an operand wherever the op allows it.
  bool overwrite = false;
  /// The index of the autotuning candidate to run, for kernels with autotuned tile sizes
  /// (cpu/blocking.h). It is reduced modulo the number of candidates.
  std::optional<size_t> candidate = {};
};

struct CpuRun {
  StepCode code = StepCode::kOk;
  Tensors values;  // the graph's outputs in row-major order
  std::map<std::string, std::vector<std::byte>> bytes;  // the same, as bytes
  bool guards_intact = true;
  int64_t heap_calls = 0;  // calls of malloc and operator new in kernels
  int overwritten = 0;     // results that were written in place
  // The largest number of candidates of a kernel, if a candidate was requested.
  size_t candidates = 0;
  bool scratch_written = false;  // a kernel wrote to its workspace
};

/// Runs the nodes in order, and stops at the first node that fails.
CpuRun RunOnCpu(const Graph& graph, const Tensors& leaves,
                const CpuRunOptions& options = {});

/// Checks (doctest) the rules that every kernel obeys. Outputs agree with the
/// interpreter within `tolerance`, which LargestError defines. The output bytes
/// are the same with 1, 2 and 3 threads, with misaligned buffers, and with
/// results written in place. Nothing is written out of bounds, and nothing is
/// allocated. If TakesAllInstances() is false (tests/support/instances.h), only
/// 3 threads are compared with 1.
void CheckAgainstInterpreter(const Graph& graph, const Tensors& leaves,
                             double tolerance);

// CheckGraph compares a graph that a test builds with the interpreter.
//
//   CheckGraph("relu", kF32.tolerance, [](GraphBuilder& g) {
//     g.Output("y", Relu(g.Input("x", DType::kF32, {40001})));
//   });

using Build = std::function<void(GraphBuilder&)>;

/// Returns the graph that `build` adds to a builder. Fails the running doctest case if the graph is
/// invalid.
Graph MakeGraph(const std::string& name, const Build& build);

/// Returns random values for all leaves, the same in each call. Integers are in [0, limit). Floats
/// are between -1 and 1. For 16-bit types they are multiples of 1/64, which those types represent
/// exactly, and otherwise they are f32 numbers.
Tensors RandomLeaves(const Graph& graph, int64_t limit = 7);

struct Precision {
  DType dtype;
  double tolerance;
};
inline constexpr Precision kF32 = {DType::kF32, 2e-5};
inline constexpr Precision kF64 = {DType::kF64, 1e-12};

/// Calls CheckAgainstInterpreter with random leaves.
void CheckGraph(const std::string& name, double tolerance, const Build& build,
                int64_t limit = 7);

}  // namespace stowage

namespace stowage::testing {

// ByF32Kernels emulates kernels that compute in f32 for a graph of f16 or bf16. The returned graph
// has f32 values, and rounds each result to the original type and back.
//
//   RunOnCpu(graph, leaves).values == RunOnCpu(ByF32Kernels(graph), leaves).values

/// Returns `graph` with f32 instead of f16 and bf16. The graph must not have an adamw_split_update,
/// whose weights must be bf16.
Graph ByF32Kernels(const Graph& graph);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_CPU_RUN_GRAPH_H_
