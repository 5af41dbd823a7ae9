// local_response_norm and its gradient on the GPU kernels, in the emulator: several
// blocks, and windows that leave room for fewer positions in a block.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "tests/gpu/kernel_leaves.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

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

}  // namespace
}  // namespace stowage
