// cross_entropy and linear_cross_entropy on the GPU kernels, in the emulator.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/matmul.h"
#include "gpu/queue.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/weight_type.h"
#include "runtime/kernel.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

constexpr LeafRange Logits(int64_t n) {
  return {.low = -4, .high = 4, .index_limit = n};
}

Graph LossGraph(DType dtype, DType label, int64_t rows, int64_t n) {
  return MakeGraph(
      StrCat("cross entropy of ", rows, " rows of ", n, " ", DTypeName(dtype)),
      [&](GraphBuilder& g) {
        const Value logits = g.Input("logits", dtype, {rows, n});
        const Value labels = g.Input("labels", label, {rows});
        const std::vector<Value> results = g.Emit(
            OpKind::kCrossEntropy, std::vector<Value>{logits, labels}, {});
        g.Output("loss", results[0]);
        g.Output("log_sum_exp", results[1]);
      });
}

Graph GradGraph(DType dtype, DType label, int64_t rows, int64_t n) {
  return MakeGraph(
      StrCat("gradient of ", rows, " rows of ", n, " ", DTypeName(dtype)),
      [&](GraphBuilder& g) {
        const Value logits = g.Input("logits", dtype, {rows, n});
        const Value labels = g.Input("labels", label, {rows});
        const Value log_sum_exp = g.Input("log_sum_exp", DType::kF32, {rows});
        const Value dloss = g.Input("dloss", DType::kF32, {});
        g.Output("dlogits",
                 CrossEntropyGrad(logits, labels, log_sum_exp, dloss));
      });
}

constexpr int64_t kLengths[] = {1,   2,    8,    31,   32,   33,   255,  257,
                                512, 1023, 1024, 1025, 1032, 4097, 50257};

TEST_CASE("losses and log-sum-exps are exact to f32 for all types of logits") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t n : kLengths) {
      for (const DType label : {DType::kI32, DType::kI64}) {
        const Graph graph = LossGraph(dtype, label, n > 2000 ? 3 : 11, n);
        CheckAgainstInterpreter(graph, RandomLeaves(graph, Logits(n)), 1e-5);
      }
    }
    const Graph many = LossGraph(dtype, DType::kI32, 3001, 5);
    CheckAgainstInterpreter(many, RandomLeaves(many, Logits(5)), 1e-5);
  }
}

TEST_CASE("gradients of rows of any length are those of the interpreter") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t n : kLengths) {
      const int64_t rows = n > 2000 ? 3 : 11;
      const Graph graph = GradGraph(dtype, DType::kI32, rows, n);
      Tensors leaves = RandomLeaves(graph, Logits(n));
      // Elements are then between -1 and e^3.
      leaves["dloss"] = {static_cast<double>(rows)};
      for (double& x : leaves["log_sum_exp"]) x = 1 + std::abs(x);
      CheckAgainstInterpreter(graph, leaves, ToleranceOf(dtype));
    }
  }
}

TEST_CASE("a label out of range is reported and its row's loss is 0") {
  for (const int64_t n : {10, 3000}) {
    for (const double bad : {-1.0, static_cast<double>(n), 2e9}) {
      const Graph graph = LossGraph(DType::kF32, DType::kI32, 3, n);
      Tensors leaves = {
          {"logits", std::vector<double>(static_cast<size_t>(3 * n), 0)},
          {"labels", {0, bad, static_cast<double>(n - 1)}}};
      const GpuRun run = RunInEmulator(graph, leaves, {.seed = 3});
      CHECK(run.wrong == "");
      CHECK(run.fault);
      const double row = std::log(static_cast<double>(n));
      CHECK(run.values.at("loss")[0] == doctest::Approx(2 * row / 3));
      CHECK(run.values.at("log_sum_exp")[1] == doctest::Approx(row));

      leaves["log_sum_exp"] = {row, row, row};
      leaves["dloss"] = {3};
      const GpuRun grad = RunInEmulator(
          GradGraph(DType::kF32, DType::kI32, 3, n), leaves, {.seed = 3});
      CHECK(grad.wrong == "");
      CHECK(grad.fault);
      const std::vector<double>& dlogits = grad.values.at("dlogits");
      const double softmax = 1 / static_cast<double>(n);
      CHECK(dlogits[0] == doctest::Approx(softmax - 1));
      CHECK(dlogits[static_cast<size_t>(n)] == doctest::Approx(softmax));
      CHECK(dlogits[static_cast<size_t>(2 * n - 1)] ==
            doctest::Approx(softmax));
    }
  }
}

struct LinearSizes {
  int64_t rows, width, vocabulary, chunk;
};
constexpr LinearSizes kLinearSizes[] = {
    {7, 5, 11, 3},     // a last chunk of one row
    {7, 5, 11, 100},   // one chunk
    {6, 8, 64, 1},     // rows of whole packs
    {5, 4, 1025, 2},   // a block a row
    {33, 16, 70, 16},  // a row more than two chunks
    {9, 5, 3, 4},      // fewer words than 16 bytes hold
};

Graph LinearGraph(DType dtype, const LinearSizes& s) {
  return MakeGraph(
      StrCat("linear cross entropy of ", s.rows, " rows of ", s.width, " by ",
             s.vocabulary, " in chunks of ", s.chunk, " ", DTypeName(dtype)),
      [&](GraphBuilder& g) {
        const Value x = g.Input("x", dtype, {s.rows, s.width});
        const Value w = g.Input("w", dtype, {s.vocabulary, s.width});
        const Value labels = g.Input("labels", DType::kI32, {s.rows});
        const Value dloss = g.Input("dloss", DType::kF32, {});
        g.Output("loss", LinearCrossEntropy(x, w, labels, s.chunk));
        const LinearCrossEntropyGrads grads =
            LinearCrossEntropyGrad(x, w, labels, dloss, s.chunk);
        g.Output("the same loss", grads.loss);
        g.Output("dx", grads.dx);
        g.Output("dw", grads.dw);
      });
}

TEST_CASE("the fused linear loss and its gradient work in chunks") {
  for (const DType dtype : kComputedDTypes) {
    for (const LinearSizes& s : kLinearSizes) {
      const Graph graph = LinearGraph(dtype, s);
      Tensors leaves = RandomLeaves(
          graph, {.low = -1, .high = 1, .index_limit = s.vocabulary});
      leaves["dloss"] = {static_cast<double>(s.rows)};
      // Logits are rounded before the rest is made of them.
      const double tolerance =
          dtype == DType::kF32 ? 1e-5 : 2 * ToleranceOf(dtype);
      CheckAgainstInterpreter(graph, leaves, tolerance);
    }
  }
}

// More rows of blocks than a panel has, and a last panel that is not full.
TEST_CASE("products and losses read blocks panel by panel") {
  constexpr WeightType kType = WeightType::kQ8_0;
  constexpr int64_t kWidth = 4096, kRows = 1030;
  static_assert(kRows > gpu::PanelRows(kRows, kWidth));
  const Graph graph = MakeGraph("panels", [&](GraphBuilder& g) {
    const Value w = g.Input("w", DType::kU8, {kRows, BytesOf(kType, kWidth)});
    const Value x = g.Input("x", DType::kF32, {2, kWidth});
    const Value labels = g.Input("labels", DType::kI32, {2});
    const Value weights = g.Input("weights", DType::kF32, {2});
    const Value dloss = g.Input("dloss", DType::kF32, {});
    const Value y = QuantizedMatMul(x, w, kType);
    g.Output("y", y);
    g.Output("back", QuantizedMatMul(y, w, kType, false));
    const LinearCrossEntropyGrads grads = LinearCrossEntropyGrad(
        x, w, labels, dloss, 2, {.weights = weights, .blocks = kType}, false);
    g.Output("loss", grads.loss);
    g.Output("dx", grads.dx);
  });
  // Bytes below 0x38: scales below 1/2.
  Tensors leaves =
      RandomLeaves(graph, {.low = -0.1, .high = 0.1, .index_limit = 0x38});
  leaves["labels"] = {3, kRows - 1};
  leaves["dloss"] = {2};
  CheckAgainstInterpreter(graph, leaves, 1e-5);
}

// Keeps the products that a launch asks for.
class Products : public gpu::Queue {
 public:
  void Launch(const gpu::KernelCall&) override {}
  void MatMul(const gpu::MatMulCall& call) override { calls.push_back(call); }
  void Fill(std::byte*, uint8_t, Bytes) override {}
  void Copy(std::byte*, const std::byte*, Bytes) override {}
  gpu::FaultSlot fault() const override { return {}; }

  std::vector<gpu::MatMulCall> calls;
};

// The products of the gradient over one chunk of 40 rows of 24, at made-up
// addresses.
std::vector<gpu::MatMulCall> ProductsOfGradient(DType dtype,
                                                int64_t vocabulary) {
  constexpr int64_t kRows = 40, kWidth = 24;
  auto view = [next = uintptr_t{1} << 32](DType type, Shape shape) mutable {
    const Strides strides = ContiguousStrides(shape);
    const auto data = reinterpret_cast<std::byte*>(next);
    next += uintptr_t{1} << 32;
    return TensorView{data, {type, std::move(shape)}, strides};
  };
  const TensorView inputs[] = {
      view(dtype, {kRows, kWidth}), view(dtype, {vocabulary, kWidth}),
      view(DType::kI32, {kRows}), view(DType::kF32, {})};
  const TensorView outputs[] = {view(DType::kF32, {}),
                                view(dtype, {kRows, kWidth}),
                                view(dtype, {vocabulary, kWidth})};
  const std::span workspace(view(dtype, {}).data, size_t{1} << 30);
  const Attrs attrs = {
      {"chunk", kRows}, {"blocks", kNoBlocks}, {"weight_grad", int64_t{1}}};
  Products products;
  gpu::GetKernel(OpKind::kLinearCrossEntropyGrad)
      .enqueue({.op = OpKind::kLinearCrossEntropyGrad,
                .node = 0,
                .attrs = &attrs,
                .inputs = inputs,
                .outputs = outputs,
                .workspace = workspace},
               products);
  return products.calls;
}

TEST_CASE("words past the last 16 bytes are products of their own") {
  // What of 1003 words is left over: 3 where 4 or 8 are 16 bytes.
  for (const DType dtype : kComputedDTypes) {
    const auto calls = ProductsOfGradient(dtype, 1003);
    REQUIRE(calls.size() == 6);
    const int64_t pack = 16 / SizeOf(dtype);
    for (size_t i = 0; i < calls.size(); ++i) {
      // Logits, dx, dw: first for the few words, then for most.
      const gpu::MatMulCall& call = calls[i];
      const int64_t words = i < 2 ? call.n : i < 4 ? call.k : call.m;
      CHECK(words == (i % 2 == 0 ? 1003 % pack : 1003 - 1003 % pack));
      // dx alone is the sum of both.
      CHECK(call.accumulate == (i == 3));
      // Operands start where 16-byte loads can.
      for (const std::byte* at :
           {call.a.data, call.b.data, static_cast<const std::byte*>(call.c)}) {
        CHECK(reinterpret_cast<uintptr_t>(at) % 16 == 0);
      }
    }
    CHECK(ProductsOfGradient(dtype, 1000).size() == 3);
    CHECK(ProductsOfGradient(dtype, 3).size() == 3);
  }
}

TEST_CASE("the fused linear loss reports a label out of range") {
  const LinearSizes s = {5, 3, 7, 2};
  const Graph graph = LinearGraph(DType::kF32, s);
  Tensors leaves = RandomLeaves(graph, {.index_limit = s.vocabulary});
  CHECK(!RunInEmulator(graph, leaves).fault);
  leaves["labels"][4] = 7;
  const GpuRun run = RunInEmulator(graph, leaves);
  CHECK(run.fault);
  CHECK(run.wrong == "");
}

}  // namespace
}  // namespace stowage
