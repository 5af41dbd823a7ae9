// Matrix products on the CPU at sizes that reach every block and ragged end, and the loss that
// is made of them by chunks.

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/cpu/run_graph.h"

namespace stowage {
namespace {

// A loss of x w^T and its gradients times dloss: by chunks of rows of logits,
// or by the ops that have all of them.
Graph LossOfProduct(DType dtype, std::optional<int64_t> chunk) {
  return MakeGraph(StrCat("loss by ", chunk.value_or(0)), [&](GraphBuilder& g) {
    const Value x = g.Input("x", dtype, {2, 41, 33});
    const Value w = g.Input("w", dtype, {301, 33});
    const Value labels = g.Input("labels", DType::kI32, {2, 41});
    const Value dloss = g.Input("dloss", dtype, {});
    if (chunk) {
      g.Output("forward", LinearCrossEntropy(x, w, labels, *chunk));
      const LinearCrossEntropyGrads grads =
          LinearCrossEntropyGrad(x, w, labels, dloss, *chunk);
      g.Output("loss", grads.loss);
      g.Output("dx", grads.dx);
      g.Output("dw", grads.dw);
      return;
    }
    const Value logits = MatMul(x, w, false, true);
    const Value operands[] = {logits, labels};
    const std::vector<Value> forward =
        g.Emit(OpKind::kCrossEntropy, operands, {});
    const Value dlogits = CrossEntropyGrad(logits, labels, forward[1], dloss);
    g.Output("forward", forward[0]);
    g.Output("loss", Copy(forward[0]));
    g.Output("dx", MatMul(dlogits, w));
    g.Output("dw", MatMul(Reshape(dlogits, {82, 301}), Reshape(x, {82, 33}),
                          true, false));
  });
}

TEST_CASE("a loss by chunks is that of all logits, and so are its gradients") {
  for (const Precision p : {kF32, kF64}) {
    const Graph whole = LossOfProduct(p.dtype, std::nullopt);
    Tensors leaves = RandomLeaves(whole, 301);
    leaves["dloss"] = {0.7};
    const CpuRun want = RunOnCpu(whole, leaves);
    for (const int64_t chunk : {1, 7, 40, 81, 82, 1000}) {
      CAPTURE(chunk);
      const Graph chunked = LossOfProduct(p.dtype, chunk);
      CheckAgainstInterpreter(chunked, leaves, p.tolerance);
      const CpuRun got = RunOnCpu(chunked, leaves);
      for (const char* loss : {"forward", "loss"}) {
        CHECK(got.values.at(loss)[0] ==
              doctest::Approx(want.values.at(loss)[0])
                  .epsilon(p.dtype == DType::kF32 ? 1e-6 : 1e-12));
      }
      CHECK(got.bytes.at("dx") == want.bytes.at("dx"));
      CHECK(got.bytes.at("dw") == want.bytes.at("dw"));
    }
  }
}

TEST_CASE("matrix products of every size and transposition") {
  const int64_t sizes[][3] = {{1, 1, 1},     {1, 70, 90},    {2, 600, 16},
                              {7, 5, 3},     {8, 16, 48},    {33, 31, 49},
                              {65, 300, 97}, {300, 17, 130}, {520, 40, 20}};
  for (const Precision p : {kF32, kF64}) {
    for (const auto& [m, k, n] : sizes) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          const Shape a = ta ? Shape{k, m} : Shape{m, k};
          const Shape b = tb ? Shape{n, k} : Shape{k, n};
          CheckGraph(StrCat("matmul ", a.ToString(), b.ToString()), p.tolerance,
                     [&](GraphBuilder& g) {
                       g.Output("y", MatMul(g.Input("a", p.dtype, a),
                                            g.Input("b", p.dtype, b), ta, tb));
                     });
        }
      }
    }
  }
}

TEST_CASE("stacks of matrix products, of views and broadcasts") {
  for (const Precision p : {kF32, kF64}) {
    const auto in = [&](GraphBuilder& g, const char* name, const Shape& shape) {
      return g.Input(name, p.dtype, shape);
    };
    const auto check = [&](const char* name, const Build& build) {
      CheckGraph(name, p.tolerance, build);
    };
    check("rows folded", [&](GraphBuilder& g) {
      g.Output("y", MatMul(in(g, "a", {3, 50, 20}), in(g, "b", {20, 30})));
    });
    check("rows of a slice, not foldable", [&](GraphBuilder& g) {
      const Value a = Slice(in(g, "a", {3, 60, 20}), 1, 5, 55);
      g.Output("y", MatMul(a, in(g, "b", {20, 30})));
    });
    check("one row each", [&](GraphBuilder& g) {
      g.Output("y", MatMul(in(g, "a", {9, 1, 20}), in(g, "b", {20, 30})));
    });
    check("transposed stack by one matrix", [&](GraphBuilder& g) {
      g.Output("y", MatMul(in(g, "a", {3, 20, 50}), in(g, "b", {20, 30}), true,
                           false));
    });
    check("stack by stack", [&](GraphBuilder& g) {
      g.Output("y",
               MatMul(in(g, "a", {2, 3, 17, 20}), in(g, "b", {2, 3, 20, 19})));
    });
    check("heads as views", [&](GraphBuilder& g) {
      const Value a = Permute(in(g, "a", {2, 17, 4, 20}), {0, 2, 1, 3});
      const Value b = Permute(in(g, "b", {2, 19, 4, 20}), {0, 2, 3, 1});
      g.Output("y", MatMul(a, b));
    });
    check("broadcast stack", [&](GraphBuilder& g) {
      g.Output("y", MatMul(in(g, "a", {4, 2, 5, 6}),
                           BroadcastTo(in(g, "b", {2, 6, 7}), {4, 2, 6, 7})));
    });
  }
}

}  // namespace
}  // namespace stowage
