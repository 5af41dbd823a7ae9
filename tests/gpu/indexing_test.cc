// gather, scatter_add, other ops along an axis, and random numbers, on the GPU kernels, in the
// emulator.

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "ir/builder.h"
#include "ir/ops.h"
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

// --- gather and scatter_add -----------------------------------------------------------

Graph GatherGraph(DType dtype, const Shape& table, DType index,
                  const Shape& indices) {
  return MakeGraph(StrCat("gather from ", TensorType{dtype, table}.ToString()),
                   [&](GraphBuilder& g) {
                     g.Output("y", Gather(g.Input("table", dtype, table),
                                          g.Input("indices", index, indices)));
                   });
}

TEST_CASE("rows of any width and type are gathered") {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t columns : {1, 2, 3, 8, 16, 31, 33, 128, 1000}) {
      for (const DType index : {DType::kI32, DType::kI64}) {
        const Graph graph = GatherGraph(dtype, {7, columns}, index, {3, 13});
        LeafRange range = {.index_limit = 7};
        if (dtype == DType::kBool) range.index_limit = 2;
        CheckAgainstInterpreter(graph, RandomLeaves(graph, range), 0);
      }
    }
  }
}

TEST_CASE("an index out of range is reported and its row is 0") {
  for (const int64_t columns : {3, 8}) {
    const Graph graph =
        GatherGraph(DType::kF32, {2, columns}, DType::kI64, {3});
    for (const double bad : {-1.0, 2.0, 1e15}) {
      const GpuRun run = RunInEmulator(
          graph,
          {{"table", std::vector<double>(static_cast<size_t>(2 * columns), 5)},
           {"indices", {1, bad, 0}}},
          {.seed = 1});
      CHECK(run.wrong == "");
      CHECK(run.fault);
      std::vector<double> want(static_cast<size_t>(3 * columns), 5);
      for (int64_t i = 0; i < columns; ++i) {
        want[static_cast<size_t>(columns + i)] = 0;
      }
      CHECK(run.values.at("y") == want);
    }
  }
}

struct ScatterSizes {
  int64_t table_rows, columns, updates;
};

Graph ScatterGraph(DType dtype, const ScatterSizes& s, DType index) {
  return MakeGraph(
      StrCat("scatter_add of ", s.updates, " to ", s.table_rows, " by ",
             s.columns, " ", DTypeName(dtype)),
      [&](GraphBuilder& g) {
        const Value base = g.Input("base", dtype, {s.table_rows, s.columns});
        const Value indices = g.Input("indices", index, {s.updates});
        const Value updates = g.Input("updates", dtype, {s.updates, s.columns});
        g.Output("y", ScatterAdd(base, indices, updates));
      });
}

// `index_of(i, random)` is the row of update i.
void CheckScatter(
    DType dtype, const ScatterSizes& s, DType index = DType::kI32,
    const std::function<double(int64_t, double)>& index_of =
        [](int64_t, double random) { return random; }) {
  const Graph graph = ScatterGraph(dtype, s, index);
  // Small integers, so that none overflows.
  Tensors leaves = RandomLeaves(graph, {.index_limit = s.table_rows});
  if (!IsFloat(dtype)) {
    for (const char* name : {"base", "updates"}) {
      for (double& x : leaves[name]) x = static_cast<int64_t>(x) % 2;
    }
  }
  int64_t i = 0;
  for (double& x : leaves["indices"]) x = index_of(i++, x);
  CheckAgainstInterpreter(graph, leaves, ToleranceOf(dtype));
}

TEST_CASE("any number of updates is added") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t updates : {1, 31, 32, 33, 64, 65, 300}) {
      CheckScatter(dtype, {5, 3, updates});
      CheckScatter(dtype, {40, 8, updates}, DType::kI64);
    }
    CheckScatter(dtype, {100, 1, 2047});
    CheckScatter(dtype, {100, 2, 2048});
    CheckScatter(dtype, {100, 1, 2049});
    CheckScatter(dtype, {100, 1, 9000});
  }
}

TEST_CASE("updates of all types and widths are added") {
  for (const DType dtype : kAllNumbers) {
    for (const int64_t columns : {1, 4, 8, 31, 33, 256, 264, 300}) {
      CheckScatter(dtype, {7, columns, 70});
    }
  }
}

TEST_CASE("tables of any height are added to") {
  for (const int64_t rows : {1, 2, 255, 256, 257, 65535, 65536, 70000}) {
    CheckScatter(DType::kF32, {rows, 1, 500});
  }
}

TEST_CASE("rows with a great many updates are added to") {
  for (const DType dtype : kComputedDTypes) {
    // All to one row; nearly all; long runs of two neighbours whose ends fall on
    // the ends of tiles.
    CheckScatter(dtype, {3, 9, 3000}, DType::kI32,
                 [](int64_t, double) { return 1.0; });
    CheckScatter(
        dtype, {50, 8, 3000}, DType::kI32,
        [](int64_t i, double random) { return i % 9 == 4 ? random : 7; });
    CheckScatter(dtype, {4, 8, 640}, DType::kI32, [](int64_t i, double) {
      return i < 320 ? 1.0 : i < 352 ? 2.0 : 3.0;
    });
  }
}

TEST_CASE("rows to which nothing is added stay as they are") {
  const Graph graph = ScatterGraph(DType::kF32, {5, 3, 2}, DType::kI32);
  const GpuRun run = RunInEmulator(graph,
                                   {{"base", std::vector<double>(15, 0.25)},
                                    {"indices", {3, 3}},
                                    {"updates", {1, 2, 3, 10, 20, 30}}},
                                   {.seed = 1});
  CHECK(run.values.at("y") ==
        std::vector<double>{0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25,
                            0.25, 11.25, 22.25, 33.25, 0.25, 0.25, 0.25});
}

TEST_CASE("an update out of range is reported and left out") {
  for (const int64_t updates : {4, 100}) {
    const Graph graph =
        ScatterGraph(DType::kBF16, {2, 8, updates}, DType::kI32);
    std::vector<double> indices(static_cast<size_t>(updates), 2);
    indices[1] = 0;
    indices[2] = -1;
    const GpuRun run = RunInEmulator(
        graph,
        {{"base", std::vector<double>(16, 1)},
         {"indices", indices},
         {"updates", std::vector<double>(static_cast<size_t>(updates * 8), 3)}},
        {.seed = 1});
    CHECK(run.wrong == "");
    CHECK(run.fault);
    std::vector<double> want(16, 1);
    for (size_t i = 0; i < 8; ++i) want[i] = 4;
    CHECK(run.values.at("y") == want);
  }
}

}  // namespace
}  // namespace stowage
