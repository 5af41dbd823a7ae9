#ifndef STOWAGE_TESTS_CPU_RUN_GRAPH_H_
#define STOWAGE_TESTS_CPU_RUN_GRAPH_H_

// Runs graphs on the CPU kernels alone: no plan, no session. Every value that
// owns bytes has memory of its own, full of NaN before it is written and with a
// guard behind it; so has every workspace.
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
  /// Moves buffers off their alignment of 64 bytes, by a multiple of 8 that
  /// differs from buffer to buffer.
  bool misaligned = false;
  /// Places result 0 over an operand wherever its op allows that.
  bool overwrite = false;
  /// The candidate to run, modulo their number, for kernels with autotuned tile sizes
  /// (cpu/blocking.h).
  std::optional<size_t> candidate = {};
};

struct CpuRun {
  StepCode code = StepCode::kOk;
  Tensors values;  // of the graph's outputs, in row-major order
  std::map<std::string, std::vector<std::byte>> bytes;  // the same, as they lie
  bool guards_intact = true;
  int64_t heap_calls = 0;        // to malloc and operator new, within kernels
  int overwritten = 0;           // results that lay over an operand
  size_t candidates = 0;         // the most of a trial, where one was asked for
  bool scratch_written = false;  // by any kernel
};

/// Runs every node in order, up to the first that fails.
CpuRun RunOnCpu(const Graph& graph, const Tensors& leaves,
                const CpuRunOptions& options = {});

/// The laws of every kernel (doctest checks): outputs agree with the
/// interpreter within `tolerance` (relative to the largest element of an
/// output, or 1), are the same bytes for 1, 2 and 3 threads, misaligned and
/// over their operands; nothing is written outside, nothing is allocated. Under the
/// address sanitizer 3 threads alone (tests/support/instances.h).
void CheckAgainstInterpreter(const Graph& graph, const Tensors& leaves,
                             double tolerance);

// Graphs that a test builds, compared with the interpreter.
//
//   CheckGraph("relu", kF32.tolerance, [](GraphBuilder& g) {
//     g.Output("y", Relu(g.Input("x", DType::kF32, {40001})));
//   });

using Build = std::function<void(GraphBuilder&)>;

/// The graph that `build` makes, which must be valid.
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

/// CheckAgainstInterpreter on random leaves.
void CheckGraph(const std::string& name, double tolerance, const Build& build,
                int64_t limit = 7);

}  // namespace stowage

namespace stowage::testing {

// A graph of f16 or bf16 as kernels that compute in f32 run it: f32 in place of that type, each
// result rounded to it and back.
//
//   RunOnCpu(graph, leaves).values == RunOnCpu(ByF32Kernels(graph), leaves).values

/// f32 in place of f16 and bf16. Precondition: the graph has no adamw_split_update, whose
/// weights must be bf16.
Graph ByF32Kernels(const Graph& graph);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_CPU_RUN_GRAPH_H_
