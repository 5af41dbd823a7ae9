// layer_norm, local_response_norm, softmaxes and their gradients on the GPU kernels, in the
// emulator: lengths around the limits of each kernel, packs, warps and blocks; many rows;
// non-finite numbers.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
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

TEST_CASE(
    "layer_norm: gradients of rows of any length are those of the "
    "interpreter") {
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

// --- local_response_norm: several blocks, wide windows --------------------------------

// Two gradients around a norm. Where results may lie over operands, they lie over dy, x
// and the other x.
Graph NormOf(DType dtype, const Shape& shape, const LocalResponse& response) {
  return MakeGraph("local_response_norm", [&](GraphBuilder& g) {
    const auto grad = [&](Value x, const char* dy) {
      return Apply(OpKind::kLocalResponseNormGrad,
                   {x, g.Input(dy, dtype, shape)},
                   {{"size", response.size},
                    {"alpha", response.alpha},
                    {"beta", response.beta},
                    {"bias", response.bias}});
    };
    const Value x = g.Input("x", dtype, shape);
    g.Output("dx", grad(x, "dy"));
    g.Output("y", LocalResponseNorm(x, response));
    g.Output("other_dx", grad(g.Input("other_x", dtype, shape), "other_dy"));
  });
}

TEST_CASE(
    "positions of many blocks are normalized by the channels around them") {
  struct Row {
    Shape x;
    LocalResponse response;
  };
  const Row rows[] = {
      {{3, 7, 150}, {.size = 5, .alpha = 2, .beta = 0.75, .bias = 1}},
      {{2, 6, 9, 13}, {.size = 4, .alpha = 1, .beta = 0.5, .bias = 2}},
      // 259 numbers a position, and for the gradient 389: 47 and 31 a block.
      {{2, 130, 41}, {.size = 259, .alpha = 9, .beta = 0.75, .bias = 1}},
      {{200, 5}, {.size = 2, .alpha = 1, .beta = 1, .bias = 1}},
  };
  for (const DType dtype : kComputedDTypes) {
    for (const Row& row : rows) {
      CAPTURE(row.x.ToString());
      const Graph graph = NormOf(dtype, row.x, row.response);
      CheckAgainstInterpreter(graph,
                              RandomLeaves(graph, {.low = -2, .high = 2}),
                              ToleranceOf(dtype));
    }
  }
}

TEST_CASE("a window too long for a block's shared memory is refused") {
  const auto said = [](int64_t size, size_t node) {
    const Graph graph = NormOf(DType::kF32, {1, 9000, 1}, {.size = size});
    const Status supported = gpu::Supports(graph, graph.nodes()[node]);
    return supported.ok() ? std::string() : supported.error().message;
  };
  CHECK(said(12288, 1) == "");
  CHECK(said(12289, 1).find(
            "size 12289 among 9000 channels takes 12289 numbers "
            "of shared memory; expected at most 12288") != std::string::npos);
  CHECK(said(8192, 0) == "");
  CHECK(said(8193, 0).find("takes 12290 numbers") != std::string::npos);
}

// --- Softmaxes ------------------------------------------------------------------------

constexpr int64_t kSoftmaxLengths[] = {1,    7,    8,    31,   32,   33,
                                       255,  256,  257,  1000, 1023, 1024,
                                       1025, 1032, 4096, 4097, 50257};

Graph Softmaxes(DType dtype, const Shape& shape) {
  return MakeGraph(StrCat("softmax of ", TensorType{dtype, shape}.ToString()),
                   [&](GraphBuilder& g) {
                     const Value x = g.Input("x", dtype, shape);
                     g.Output("softmax", Softmax(x));
                     g.Output("log_softmax", LogSoftmax(x));
                   });
}

TEST_CASE("rows of any length become softmaxes") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t n : kSoftmaxLengths) {
      const Graph graph = Softmaxes(dtype, {n > 2000 ? 2 : 9, n});
      CheckAgainstInterpreter(graph,
                              RandomLeaves(graph, {.low = -3, .high = 3}),
                              ToleranceOf(dtype));
    }
  }
}

TEST_CASE("rows of large numbers become softmaxes") {
  for (const int64_t n : {40, 3000}) {
    const Graph graph = Softmaxes(DType::kF32, {3, n});
    CheckAgainstInterpreter(
        graph, RandomLeaves(graph, {.low = -1000, .high = 1000}), 1e-5);
  }
}

TEST_CASE(
    "softmax: gradients of rows of any length are those of the interpreter") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t n : kSoftmaxLengths) {
      const Shape shape{n > 2000 ? 2 : 9, n};
      const Graph graph = MakeGraph(
          StrCat("gradients of ", TensorType{dtype, shape}.ToString()),
          [&](GraphBuilder& g) {
            const Value y = g.Input("y", dtype, shape);
            const Value dy = g.Input("dy", dtype, shape);
            g.Output("softmax", SoftmaxGrad(y, dy));
            g.Output("log_softmax", LogSoftmaxGrad(y, dy));
          });
      CheckAgainstInterpreter(graph, RandomLeaves(graph), ToleranceOf(dtype));
    }
  }
}

TEST_CASE("what is masked by -inf gets weight 0, wherever it is") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const int64_t n : {40, 5000}) {
    // A stretch longer than what one thread has, from the start.
    std::vector<double> x(static_cast<size_t>(n), -infinity);
    x[static_cast<size_t>(n - 2)] = 1;
    x[static_cast<size_t>(n - 1)] = 1;
    const GpuRun run =
        RunInEmulator(Softmaxes(DType::kF32, {1, n}), {{"x", x}}, {.seed = 1});
    const std::vector<double>& y = run.values.at("softmax");
    CHECK(y[0] == 0);
    CHECK(y[static_cast<size_t>(n - 3)] == 0);
    CHECK(y[static_cast<size_t>(n - 1)] == doctest::Approx(0.5));
    CHECK(run.values.at("log_softmax")[static_cast<size_t>(n - 1)] ==
          doctest::Approx(-std::log(2.0)));
  }
}

TEST_CASE("a NaN makes its row NaN and no other") {
  for (const int64_t n : {40, 5000}) {
    std::vector<double> x(static_cast<size_t>(2 * n), 1);
    x[static_cast<size_t>(n + 3)] = std::numeric_limits<double>::quiet_NaN();
    const GpuRun run =
        RunInEmulator(Softmaxes(DType::kBF16, {2, n}), {{"x", x}}, {.seed = 1});
    for (const char* name : {"softmax", "log_softmax"}) {
      const std::vector<double>& y = run.values.at(name);
      CHECK(std::isfinite(y[0]));
      CHECK(std::isfinite(y[static_cast<size_t>(n - 1)]));
      CHECK(std::isnan(y[static_cast<size_t>(n)]));
      CHECK(std::isnan(y[static_cast<size_t>(2 * n - 1)]));
    }
  }
}

}  // namespace
}  // namespace stowage
