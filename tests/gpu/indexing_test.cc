// Ops along an axis, and random numbers, on the GPU kernels, in the emulator.

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/gpu/kernel_leaves.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

constexpr DType kAllNumbers[] = {DType::kF32, DType::kBF16, DType::kF16,
                                 DType::kI64, DType::kI32,  DType::kI16,
                                 DType::kU8};

TEST_CASE("every type is summed up along rows and columns") {
  for (const DType dtype : kAllNumbers) {
    const Graph graph =
        MakeGraph(StrCat("cumsum of ", DTypeName(dtype)), [&](GraphBuilder& g) {
          const Value x = g.Input("x", dtype, {3, 37, 45});
          g.Output("rows", CumSum(x, 2));
          g.Output("rows_back", CumSum(x, 2, true, true));
          g.Output("columns", CumSum(x, 1, true));
          g.Output("slices", CumSum(x, 0, false, true));
        });
    CheckAgainstInterpreter(graph, RandomLeaves(graph, {.index_limit = 5}),
                            ToleranceOf(dtype));
  }
}

TEST_CASE("every type is taken, put and sorted along an axis") {
  for (const DType dtype : kAllNumbers) {
    const Graph graph = MakeGraph(
        StrCat("along axes of ", DTypeName(dtype)), [&](GraphBuilder& g) {
          const Value x = g.Input("x", dtype, {2, 5, 70});
          const Value at = g.Input("at", DType::kI64, {2, 9, 70});
          const Value of_row = g.Input("of_row", DType::kI32, {2, 5, 300});
          g.Output("taken", TakeAlongAxis(x, at, 1));
          g.Output("taken_of_row", TakeAlongAxis(x, of_row, 2));
          g.Output("put",
                   PutAdd(x, at, g.Input("updates", dtype, {2, 9, 70}), 1));
          const Value all = Reshape(x, {700});
          const TopKResults some = TopK(all, 300);
          g.Output("some", some.values);
          g.Output("some_places", some.indices);
          g.Output("places", Sort(x).indices);
        });
    CheckAgainstInterpreter(graph, RandomLeaves(graph, {.index_limit = 5}),
                            ToleranceOf(dtype));
  }
}

TEST_CASE("bools are taken") {
  const Graph graph = MakeGraph("bools", [](GraphBuilder& g) {
    g.Output("y", TakeAlongAxis(g.Input("x", DType::kBool, {2, 3}),
                                g.Input("at", DType::kI32, {5, 3}), 0));
  });
  CheckAgainstInterpreter(graph, RandomLeaves(graph, {.index_limit = 2}), 0);
}

TEST_CASE("an index out of range along an axis is reported") {
  for (const bool put : {false, true}) {
    const Graph graph = MakeGraph("faults", [&](GraphBuilder& g) {
      const Value x = g.Input("x", DType::kF32, {2, 3});
      const Value at = g.Input("at", DType::kI64, {2, 2});
      g.Output("y", put ? PutAdd(x, at, g.Input("dy", DType::kF32, {2, 2}), 1)
                        : TakeAlongAxis(x, at, 1));
    });
    Tensors leaves = {{"x", {1, 2, 3, 4, 5, 6}}, {"at", {0, 2, 1, 1}}};
    if (put) leaves["dy"] = {10, 20, 30, 40};
    CHECK_FALSE(RunInEmulator(graph, leaves).fault);
    for (const double bad : {-1.0, 3.0, 1e15}) {
      leaves["at"][2] = bad;
      const GpuRun run = RunInEmulator(graph, leaves, {.seed = 1});
      CHECK(run.wrong == "");
      CHECK(run.fault);
      CHECK(run.values.at("y") ==
            (put ? std::vector<double>{11, 2, 23, 4, 45, 6}
                 : std::vector<double>{1, 3, 0, 5}));
    }
  }
}

TEST_CASE("NaN comes last on a GPU, whichever way the others are sorted") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const DType dtype : kComputedDTypes) {
    const Graph graph = MakeGraph("nan", [&](GraphBuilder& g) {
      const Value x = g.Input("x", dtype, {5});
      g.Output("down", Sort(x, /*descending=*/true).indices);
      g.Output("up", Sort(x).indices);
    });
    const GpuRun run = RunInEmulator(graph, {{"x", {kNaN, 2, kNaN, 1, kInf}}});
    CHECK(run.wrong == "");
    CHECK(run.values.at("down") == std::vector<double>{4, 1, 3, 0, 2});
    CHECK(run.values.at("up") == std::vector<double>{3, 1, 4, 0, 2});
  }
}

TEST_CASE("uniform numbers are the interpreter's, bit for bit") {
  for (const DType dtype : kComputedDTypes) {
    const Graph graph = MakeGraph("uniform", [&](GraphBuilder& g) {
      g.Output("y", RandomUniform(g.Input("seed", DType::kI64, {}),
                                  g.Input("step", DType::kI64, {}), {1030},
                                  dtype, 5));
    });
    CheckAgainstInterpreter(graph, {{"seed", {12345678901}}, {"step", {77}}},
                            0);
  }
}

}  // namespace
}  // namespace stowage
