// Products cut in every way that a trial proposes: the bits are those of the default. And
// what trials propose, of which part.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/strings.h"
#include "cpu/blocking.h"
#include "cpu/kernels/gemm.h"
#include "cpu/thread_pool.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/elements.h"

namespace stowage {
namespace {

// Runs the graph by every candidate, and returns how many there were.
size_t CheckBits(const Graph& graph) {
  CAPTURE(graph.name());
  const Tensors leaves = RandomLeaves(graph);
  const CpuRun plain = RunOnCpu(graph, leaves);
  REQUIRE(plain.code == StepCode::kOk);
  size_t candidates = 1;
  for (size_t i = 0; i < candidates; ++i) {
    for (const int threads : {1, 3}) {
      CAPTURE(i);
      CAPTURE(threads);
      const CpuRun run =
          RunOnCpu(graph, leaves, {.threads = threads, .candidate = i});
      candidates = std::max(candidates, run.candidates);
      CHECK(run.bytes == plain.bytes);
      CHECK(run.guards_intact);
      CHECK(run.heap_calls == 0);
    }
  }
  return candidates;
}

// x w, of which x is (m, k), plus a bias, gelu of it, and that times a gate.
std::vector<Value> AfterProduct(GraphBuilder& g, const Value& x, const Value& w,
                                bool transpose_a, bool transpose_b,
                                const Shape& shape) {
  GraphBuilder parts("parts");
  const DType dtype = x.dtype();
  const Value y = parts.Input("y", dtype, shape);
  const Value bias = parts.Input("bias", dtype, shape);
  const Value gate = parts.Input("gate", dtype, shape);
  const Value before = Add(y, bias);
  parts.Output("gated", Mul(GeluTanh(before), gate));
  parts.Output("before", before);
  Result<Graph> program = parts.Finish();
  REQUIRE_MESSAGE(program.ok(), program.error().message);
  const Value operands[] = {
      x, w, BroadcastTo(g.Input("bias", dtype, {shape.back()}), shape),
      g.Input("gate", dtype, shape)};
  return g.Emit(
      OpKind::kFusedMatMul, operands,
      {{"transpose_a", int64_t{transpose_a}},
       {"transpose_b", int64_t{transpose_b}},
       {"program",
        SubGraphs{std::make_shared<const Graph>(*std::move(program))}}});
}

TEST_CASE("no blocking of a product shows in a bit") {
  const int64_t sizes[][3] = {{130, 300, 97},
                              {33, 31, 1100},
                              {520, 70, 60},
                              {1, 1100, 1000},
                              {23, 513, 102}};
  size_t most = 0;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const auto& size : sizes) {
      const int64_t m = size[0], k = size[1], n = size[2];
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          const Shape a = ta ? Shape{k, m} : Shape{m, k};
          const Shape b = tb ? Shape{n, k} : Shape{k, n};
          const Graph graph = MakeGraph(
              StrCat("product ", a.ToString(), b.ToString()),
              [&](GraphBuilder& g) {
                const Value x = g.Input("a", dtype, a);
                const Value w = g.Input("b", dtype, b);
                const std::vector<Value> after =
                    AfterProduct(g, x, w, ta, tb, {m, n});
                g.Output("gated", after[0]);
                g.Output("before", after[1]);
                g.Output("y", MatMul(x, w, ta, tb));
                const Value operands[] = {x, w, g.Input("row", dtype, {n}),
                                          g.Input("more", dtype, {m, n})};
                g.Output("sum", g.Emit(OpKind::kEpilogueMatMul, operands,
                                       {{"transpose_a", int64_t{ta}},
                                        {"transpose_b", int64_t{tb}},
                                        {"bias", int64_t{1}},
                                        {"addend", int64_t{1}},
                                        {"gelu_grad", int64_t{0}},
                                        {"a_sums", int64_t{0}},
                                        {"b_sums", int64_t{0}}})[0]);
              });
          const size_t candidates = CheckBits(graph);
          if (!tb) CHECK(candidates >= 3);
          most = std::max(most, candidates);
        }
      }
    }
  }
  CHECK(most == 4);
}

TEST_CASE("no blocking of a stack's rows, or of a slice's, shows in a bit") {
  CheckBits(MakeGraph("folded", [](GraphBuilder& g) {
    g.Output("y", MatMul(g.Input("a", DType::kF32, {3, 50, 90}),
                         g.Input("b", DType::kF32, {90, 130})));
  }));
  const size_t candidates = CheckBits(MakeGraph("slices", [](GraphBuilder& g) {
    const Value a = Slice(g.Input("a", DType::kF32, {140, 100}), 1, 5, 95);
    const Value b = Slice(g.Input("b", DType::kF32, {90, 170}), 1, 3, 133);
    g.Output("y", MatMul(a, b));
  }));
  CHECK(candidates >= 3);
  // Of f16 and bf16, and of stacks by stacks, the default is all there is.
  CHECK(CheckBits(MakeGraph("halves", [](GraphBuilder& g) {
          g.Output("y", MatMul(g.Input("a", DType::kBF16, {130, 90}),
                               g.Input("b", DType::kBF16, {90, 130})));
        })) == 1);
  CHECK(CheckBits(MakeGraph("stacks", [](GraphBuilder& g) {
          g.Output("y", MatMul(g.Input("a", DType::kF32, {2, 70, 90}),
                               g.Input("b", DType::kF32, {2, 90, 130})));
        })) == 1);
}

TEST_CASE("a product is cut by the blocking that it is given") {
  const Graph graph = MakeGraph("product", [](GraphBuilder& g) {
    g.Output("y", MatMul(g.Input("a", DType::kF32, {130, 90}),
                         g.Input("b", DType::kF32, {90, 130})));
  });
  const Tensors leaves = RandomLeaves(graph);
  // Strips are copied into scratch by the default, and not by the next candidate.
  CHECK(RunOnCpu(graph, leaves, {.candidate = 0}).scratch_written);
  CHECK_FALSE(RunOnCpu(graph, leaves, {.candidate = 1}).scratch_written);
}

// The trial of (m, k) by (k, n), both in rows that follow each other.
std::optional<cpu::BlockingTrial> TrialOf(int64_t m, int64_t n, int64_t k,
                                          int threads = 1) {
  return cpu::ProductTrial<float>(m, n, k, {nullptr, k, 1}, {nullptr, n, 1},
                                  threads);
}

TEST_CASE("a trial takes a part of what is large, and nothing of what is not") {
  // 511 * 2048 are fewer than 2^20.
  CHECK_FALSE(TrialOf(511, 64, 32));
  CHECK(TrialOf(512, 64, 32));
  // In whole this is 1.5 GB, and 24 runs of 236 billion multiply-adds.
  const auto part = TrialOf(100'000, 3072, 768);
  REQUIRE(part);
  // The more threads, the more work, but for what that many rows of c would span.
  for (const int threads : {1, 2, 4, 8, 16, 32}) {
    CAPTURE(threads);
    CHECK(TrialOf(1024, 3072, 768, threads));
    CHECK(TrialOf(1024, 768, 3072, threads));
  }
  // At least a block of k, whose rows are 200 kB apart, spans 51 MB.
  CHECK_FALSE(TrialOf(256, 50'257, 768));
  // Each of these is another choice.
  const cpu::BlockingKey keys[] = {
      part->key,
      TrialOf(100'000, 3072, 768, 2)->key,
      TrialOf(99'999, 3072, 768)->key,
      TrialOf(100'000, 3071, 768)->key,
      TrialOf(100'000, 3072, 767)->key,
      cpu::ProductTrial<float>(100'000, 3072, 768, {nullptr, 1, 100'000},
                               {nullptr, 3072, 1}, 1)
          ->key,
      cpu::ProductTrial<float>(100'000, 3072, 768, {nullptr, 768, 1},
                               {nullptr, 3080, 1}, 1)
          ->key,
      cpu::ProductTrial<double>(100'000, 3072, 768, {nullptr, 768, 1},
                                {nullptr, 3072, 1}, 1)
          ->key};
  for (const cpu::BlockingKey& key : keys) {
    CHECK(std::ranges::count(keys, key) == 1);
  }
}

TEST_CASE("a trial of a part stays within its memory") {
  cpu::ThreadPool one(1), three(3);
  for (const bool transposed : {false, true}) {
    for (cpu::ThreadPool* const pool : {&one, &three}) {
      CAPTURE(transposed);
      CAPTURE(pool->threads());
      // Cut in all three sizes by one thread: 2048, 800 and 700.
      const auto trial = cpu::ProductTrial<float>(
          2048, 800, 700,
          {nullptr, transposed ? 1 : 700, transposed ? 2048 : 1},
          {nullptr, 800, 1}, pool->threads());
      REQUIRE(trial);
      GuardedBuffer memory(trial->bytes, 64);
      std::memset(memory.data(), 0x3c, static_cast<size_t>(trial->bytes));
      for (const cpu::Blocking& blocking : trial->candidates) {
        trial->run(memory.data(), blocking, *pool);
        CHECK(memory.intact());
      }
    }
  }
}

}  // namespace
}  // namespace stowage
