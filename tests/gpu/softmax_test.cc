// Softmaxes and their gradients on the GPU kernels, in the emulator: lengths
// around the sizes of packs, warps and blocks, and numbers that are not finite.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/gpu/kernel_leaves.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

constexpr int64_t kLengths[] = {1,    7,    8,    31,   32,   33,
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
    for (const int64_t n : kLengths) {
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

TEST_CASE("gradients of rows of any length are those of the interpreter") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t n : kLengths) {
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
