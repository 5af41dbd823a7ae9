// lstm, its gradient and that of its weights on the GPU kernels, in the emulator:
// several blocks of cells, both directions, sequences that lie by positions.

#include <doctest/doctest.h>

#include <cstdint>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

struct Row {
  int64_t batch, time, hidden;
  bool reverse, by_positions;
};

Graph LstmOf(DType dtype, const Row& row) {
  return MakeGraph("lstm", [&](GraphBuilder& g) {
    const auto input = [&](const char* name, const Shape& shape) {
      return g.Input(name, dtype, shape);
    };
    const auto sequence = [&](const char* name, int64_t width) {
      if (!row.by_positions) return input(name, {row.batch, row.time, width});
      return Permute(input(name, {row.time, row.batch, width}), {1, 0, 2});
    };
    const Value h0 = input("h0", {row.batch, row.hidden});
    const Value c0 = input("c0", {row.batch, row.hidden});
    const Value w = MulScalar(input("w", {4 * row.hidden, row.hidden}), 0.125);
    const LstmSequenceResults all =
        LstmSequence(sequence("gates", 4 * row.hidden), h0, c0, w, row.reverse);
    g.Output("h", all.h);
    g.Output("c", all.c);
    const LstmGrads grads = LstmGrad(
        Sigmoid(sequence("activated", 4 * row.hidden)), c0, w, all.c,
        sequence("dh", row.hidden), sequence("dc", row.hidden), row.reverse);
    g.Output("dgates", grads.dgates);
    g.Output("dh0", grads.dh0);
    g.Output("dc0", grads.dc0);
    g.Output("dw", LstmWeightGrad(grads.dgates, h0, all.h, row.reverse));
  });
}

TEST_CASE("sequences of many cells agree with their definition") {
  const Row rows[] = {
      {9, 3, 70, false, false},
      {17, 2, 33, true, true},
      {2, 5, 19, false, true},
  };
  for (const DType dtype : kComputedDTypes) {
    for (const Row& row : rows) {
      CAPTURE(row.hidden);
      const Graph graph = LstmOf(dtype, row);
      // Sums, h and c are rounded at each position, and go on from there.
      CheckAgainstInterpreter(graph, RandomLeaves(graph),
                              4 * ToleranceOf(dtype));
    }
  }
}

}  // namespace
}  // namespace stowage
