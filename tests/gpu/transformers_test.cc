// rms_norm, rope and glu on the GPU kernels, in the emulator: sizes for each of the
// kernels and around their limits.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

TEST_CASE("rows of any length are normalized by their squares") {
  // Of whole packs and not, for each number of elements that a thread has.
  for (const int64_t n : {1, 5, 8, 255, 264, 520, 776, 1024, 1025, 1032, 2056,
                          4104, 8192, 8200, 8201}) {
    for (const DType dtype : kComputedDTypes) {
      const int64_t rows = n > 1100 ? 2 : 9;
      const Graph graph =
          MakeGraph(StrCat("rms_norm of ", n, " ", DTypeName(dtype)),
                    [&](GraphBuilder& g) {
                      const Value x = g.Input("x", dtype, {rows, n});
                      const Value gamma = g.Input("gamma", dtype, {n});
                      g.Output("y", RmsNorm(x, gamma));
                      const RmsNormGrads grads = RmsNormGrad(
                          x, gamma, g.Input("rstd", DType::kF32, {rows}),
                          g.Input("dy", dtype, {rows, n}));
                      g.Output("dx", grads.dx);
                      g.Output("dgamma", grads.dgamma);
                    });
      CheckAgainstInterpreter(graph,
                              RandomLeaves(graph, {.low = -1, .high = 2}),
                              ToleranceOf(dtype));
    }
  }
}

TEST_CASE("many rows add up to one gradient of gamma") {
  const Graph graph = MakeGraph("rms_norm_grad", [&](GraphBuilder& g) {
    const RmsNormGrads grads =
        RmsNormGrad(g.Input("x", DType::kBF16, {4097, 8}),
                    g.Input("gamma", DType::kBF16, {8}),
                    g.Input("rstd", DType::kF32, {4097}),
                    g.Input("dy", DType::kBF16, {4097, 8}));
    g.Output("dx", grads.dx);
    g.Output("dgamma", grads.dgamma);
  });
  CheckAgainstInterpreter(graph, RandomLeaves(graph),
                          ToleranceOf(DType::kBF16));
}

TEST_CASE("heads turn by packs and one by one, to the same bits") {
  struct Row {
    Shape x;
    int64_t dims;
  };
  const Row rows[] = {{{2, 5, 9, 64}, 64},     // packs, heads in turns
                      {{1, 7, 3, 64}, 32},     // packs that do not turn
                      {{2, 3, 5, 20}, 12},     // no packs
                      {{1, 2, 1, 512}, 512}};  // the most there may be
  for (const DType dtype : kComputedDTypes) {
    for (const Row& row : rows) {
      for (const bool interleaved : {false, true}) {
        const Graph graph = MakeGraph("rope", [&](GraphBuilder& g) {
          const Value x = g.Input("x", dtype, row.x);
          const Value at = g.Input("at", DType::kI32, {row.x[0], row.x[1]});
          g.Output("y", Rope(x, at,
                             {.dims = row.dims,
                              .interleaved = interleaved,
                              .inverse = dtype == DType::kF16}));
        });
        CheckAgainstInterpreter(
            graph, RandomLeaves(graph, {.index_limit = 100'000}),
            dtype == DType::kF32 ? 1e-6 : ToleranceOf(dtype));
      }
    }
  }
}

TEST_CASE("what turns of a head has a limit, which is said") {
  const Graph graph = MakeGraph("rope", [](GraphBuilder& g) {
    g.Output("y", Rope(g.Input("x", DType::kF32, {1, 1, 1, 514})));
  });
  const Status supported = gpu::Supports(graph, graph.nodes()[0]);
  REQUIRE_FALSE(supported.ok());
  CHECK(supported.error().message.find(
            "514 elements of a head turn; expected at most 512") !=
        std::string::npos);
}

TEST_CASE("gates of whole packs, and of what is left over") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t n : {1, 7, 64, 3001}) {
      for (const GluActivation activation :
           {GluActivation::kSilu, GluActivation::kGeluTanh,
            GluActivation::kGeluErf}) {
        const Graph graph = MakeGraph(StrCat("glu of ", n), [&](auto& g) {
          const Value gate = g.Input("gate", dtype, {n});
          const Value up = g.Input("up", dtype, {n});
          g.Output("y", Glu(gate, up, activation));
          const GluGrads grads =
              GluGrad(gate, up, g.Input("dy", dtype, {n}), activation);
          g.Output("dgate", grads.dgate);
          g.Output("dup", grads.dup);
        });
        CheckAgainstInterpreter(graph,
                                RandomLeaves(graph, {.low = -3, .high = 3}),
                                ToleranceOf(dtype));
      }
    }
  }
}

}  // namespace
}  // namespace stowage
