// layer_norm and its gradient on the GPU kernels, in the emulator: lengths for
// each of the kernels and around their limits, and many rows.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/gpu/kernel_leaves.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

// Of whole packs and not, for each number of elements that a thread has.
constexpr int64_t kLengths[] = {1,    5,    8,    255,  256,  264,
                                520,  768,  776,  1024, 1025, 1032,
                                2056, 4104, 8192, 8200, 8201};

enum class Wanted { kNormal, kStatistics, kAll };

Graph NormGraph(DType dtype, int64_t rows, int64_t n, Wanted wanted) {
  return MakeGraph(
      StrCat("layer_norm of ", rows, " rows of ", n, " ", DTypeName(dtype)),
      [&](GraphBuilder& g) {
        const std::vector<Value> operands = {g.Input("x", dtype, {rows, n}),
                                             g.Input("gamma", dtype, {n}),
                                             g.Input("beta", dtype, {n})};
        const std::vector<Value> results =
            g.Emit(OpKind::kLayerNorm, operands, {{"eps", 1e-5}});
        if (wanted != Wanted::kStatistics) g.Output("y", results[0]);
        if (wanted != Wanted::kNormal) {
          g.Output("mean", results[1]);
          g.Output("rstd", results[2]);
        }
      });
}

TEST_CASE("rows of any length are normalized") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t n : kLengths) {
      const double tolerance = ToleranceOf(dtype);
      const int64_t rows = n > 1100 ? 2 : 9;
      const LeafRange range = {.low = -1, .high = 2};
      const Graph graph = NormGraph(dtype, rows, n, Wanted::kNormal);
      CheckAgainstInterpreter(graph, RandomLeaves(graph, range), tolerance);
      const Graph statistics = NormGraph(dtype, rows, n, Wanted::kStatistics);
      CheckAgainstInterpreter(statistics, RandomLeaves(statistics, range),
                              1e-5);
    }
  }
}

TEST_CASE("a variance far below the mean keeps its digits") {
  for (const int64_t n : {768, 1600, 9000}) {
    const Graph graph = NormGraph(DType::kF32, 2, n, Wanted::kAll);
    Tensors leaves = RandomLeaves(graph);
    for (double& x : leaves["x"]) {
      x = static_cast<float>(1000 + std::round(64 * x) / 64);
    }
    // The mean is rounded to one part in 2^24, which is 2^-14 of a standard
    // deviation here.
    CheckAgainstInterpreter(graph, leaves, 2e-4);
  }
}

Graph GradGraph(DType dtype, int64_t rows, int64_t n) {
  return MakeGraph(
      StrCat("gradient of ", rows, " rows of ", n, " ", DTypeName(dtype)),
      [&](GraphBuilder& g) {
        const std::vector<Value> operands = {
            g.Input("x", dtype, {rows, n}), g.Input("gamma", dtype, {n}),
            g.Input("mean", DType::kF32, {rows}),
            g.Input("rstd", DType::kF32, {rows}),
            g.Input("dy", dtype, {rows, n})};
        const std::vector<Value> results =
            g.Emit(OpKind::kLayerNormGrad, operands, {});
        g.Output("dx", results[0]);
        g.Output("dgamma", results[1]);
        g.Output("dbeta", results[2]);
      });
}

void CheckGrad(DType dtype, int64_t rows, int64_t n) {
  const Graph graph = GradGraph(dtype, rows, n);
  const Tensors leaves = RandomLeaves(graph, {.low = -1, .high = 2});
  CheckAgainstInterpreter(graph, leaves, ToleranceOf(dtype));
}

TEST_CASE("gradients of rows of any length are those of the interpreter") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t n : kLengths) CheckGrad(dtype, n > 4000 ? 3 : 9, n);
  }
}

TEST_CASE("gradients of many rows are those of the interpreter") {
  for (const DType dtype : kComputedDTypes) {
    CheckGrad(dtype, 1, 768);
    CheckGrad(dtype, 130, 40);
  }
  CheckGrad(DType::kBF16, 4097, 8);  // every block has rows, one has more
  CheckGrad(DType::kF32, 70, 1100);
}

// dx and the sums of the parts, of one norm.
Graph GradInParts(DType dtype, int64_t rows, int64_t n, int64_t parts) {
  return MakeGraph(
      StrCat("gradient of ", rows, " rows of ", n, " ", DTypeName(dtype),
             " in ", parts, " parts"),
      [&](GraphBuilder& g) {
        const std::vector<Value> operands = {
            g.Input("x", dtype, {rows, n}), g.Input("gamma", dtype, {n}),
            g.Input("mean", DType::kF32, {rows}),
            g.Input("rstd", DType::kF32, {rows}),
            g.Input("dy", dtype, {rows, n})};
        const std::vector<Value> results =
            g.Emit(OpKind::kLayerNormGrad, operands, {{"parts", parts}});
        const std::vector<Value> sums =
            g.Emit(OpKind::kSumPartials, std::vector{results[1], results[2]},
                   {{"dtype", dtype}});
        g.Output("dx", results[0]);
        g.Output("dgamma", sums[0]);
        g.Output("dbeta", sums[1]);
      });
}

TEST_CASE("partial sums of any number of parts add up to the sums") {
  for (const int64_t n : {37, 768, 1100, 8200}) {  // a kernel each
    for (const int64_t parts : {1, 2, 9}) {
      const Graph graph = GradInParts(DType::kBF16, 9, n, parts);
      CheckAgainstInterpreter(graph,
                              RandomLeaves(graph, {.low = -1, .high = 2}),
                              ToleranceOf(DType::kBF16));
    }
  }
}

TEST_CASE("more sums than a grid has params for go in several") {
  constexpr int kSums = 130;
  const Graph graph = MakeGraph("sums", [&](GraphBuilder& g) {
    std::vector<Value> partials;
    for (int i = 0; i < kSums; ++i) {
      partials.push_back(
          g.Input(StrCat("p", i), DType::kF32, {1 + i % 19, 1 + i}));
    }
    const std::vector<Value> sums =
        g.Emit(OpKind::kSumPartials, partials, {{"dtype", DType::kF16}});
    for (int i = 0; i < kSums; ++i) {
      g.Output(StrCat("y", i), sums[static_cast<size_t>(i)]);
    }
  });
  const Tensors leaves = RandomLeaves(graph);
  CHECK(RunInEmulator(graph, leaves).grids == 2);
  CheckAgainstInterpreter(graph, leaves, ToleranceOf(DType::kF16));
}

}  // namespace
}  // namespace stowage
