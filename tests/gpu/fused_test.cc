// Fused nodes on the GPU's kernels: to the bit what their parts are.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "gpu/gpu_needs.h"
#include "gpu/kernel.h"
#include "gpu/queue.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/gpt.h"
#include "nn/models.h"
#include "planner/fit/epilogues/epilogues.h"
#include "planner/fit/fit.h"
#include "planner/fit/fuse/fuse.h"
#include "report/traffic.h"
#include "runtime/kernel.h"
#include "runtime/program.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

// Numbers in [-2, 2) that look like none.
std::vector<double> Fill(int64_t count, int seed) {
  std::vector<double> numbers;
  uint32_t state = 12345u + 977u * static_cast<uint32_t>(seed);
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    numbers.push_back(static_cast<double>(state >> 16) / 16384 - 2);
  }
  return numbers;
}

void CheckBits(const std::function<void(GraphBuilder&, DType)>& build,
               int fewer) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    CAPTURE(std::string(DTypeName(dtype)));
    GraphBuilder g("parts");
    build(g, dtype);
    const Result<Graph> parts = g.Finish();
    REQUIRE_MESSAGE(parts.ok(), parts.error().message);
    const PlanOptions options = {.device = GpuNeeds()};
    const Result<Plan> plan = PlanMemory(*parts, options);
    REQUIRE(plan.ok());
    const Result<fit::Fused> fused = fit::Fuse(*parts, *plan, options);
    REQUIRE_MESSAGE(fused.ok(), fused.error().message);
    CHECK(parts->num_nodes() - fused->graph.num_nodes() == fewer);
    Tensors leaves;
    for (const ValueInfo& value : parts->values()) {
      if (!value.is_leaf()) continue;
      leaves[value.name] = Fill(value.type.shape.num_elements(),
                                static_cast<int>(leaves.size()));
    }
    const GpuRun apart = RunInEmulator(*parts, leaves, {.seed = 3});
    const GpuRun together =
        RunInEmulator(fused->graph, leaves, {.seed = 5, .overwrite = true});
    CHECK(together.wrong == "");
    CHECK(together.bytes == apart.bytes);
    CHECK(together.grids < apart.grids);
    const GpuRun anywhere =
        RunInEmulator(fused->graph, leaves, {.misaligned = true});
    CHECK(anywhere.bytes == apart.bytes);
  }
}

TEST_CASE("bias, gelu and what it keeps") {
  CheckBits(
      [](GraphBuilder& g, DType dtype) {
        const Value x = g.Input("x", dtype, {6, 72});
        const Value before =
            Add(Softmax(x), BroadcastTo(g.Input("b", dtype, {72}), {6, 72}));
        g.Output("y", GeluTanh(before));
        g.Output("before", before);
      },
      1);
}

TEST_CASE("a product, then bias, residual and more, in odd rows") {
  CheckBits(
      [](GraphBuilder& g, DType dtype) {
        const Value product =
            MatMul(g.Input("a", dtype, {5, 9}), g.Input("b", dtype, {9, 37}));
        const Value r = g.Input("r", dtype, {5, 37});
        const Value sum =
            Add(product, BroadcastTo(g.Input("bias", dtype, {37}), {5, 37}));
        // Made before what it is multiplied with, whatever the compiler.
        const Value silu = Silu(r);
        g.Output("y", Mul(Tanh(Add(r, sum)), silu));
      },
      2);
}

TEST_CASE("products and sums are not made one operation") {
  CheckBits(
      [](GraphBuilder& g, DType dtype) {
        const Value a = g.Input("a", dtype, {4, 40});
        const Value b = g.Input("b", dtype, {4, 40});
        g.Output("y", Sub(Mul(Add(Mul(a, b), b), a), b));
      },
      3);
}

TEST_CASE("the gradient of a norm, and a sum with it") {
  for (const int64_t columns : {72, 37, 1100}) {
    CheckBits(
        [=](GraphBuilder& g, DType dtype) {
          const Value x = g.Input("x", dtype, {5, columns});
          const LayerNormGrads grads =
              LayerNormGrad(x, g.Input("gamma", dtype, {columns}),
                            g.Input("mean", DType::kF32, {5}),
                            g.Input("rstd", DType::kF32, {5}),
                            g.Input("dy", dtype, {5, columns}));
          g.Output("dx",
                   Add(g.Input("residual", dtype, {5, columns}), grads.dx));
          g.Output("dgamma", grads.dgamma);
          g.Output("dbeta", grads.dbeta);
        },
        1);
  }
}

TEST_CASE("the sums of several norms' gradients") {
  // Their last sums are one node more, and one grid for four.
  for (const int64_t columns : {72, 37, 1100}) {
    CheckBits(
        [=](GraphBuilder& g, DType dtype) {
          constexpr int64_t kRows = 21;  // three blocks
          // Room for partial sums.
          g.Output("top",
                   ReduceMax(Softmax(g.Input("huge", dtype, {99, 999}))));
          const Value rows = g.Input("rows", DType::kF32, {kRows});
          Value dy = g.Input("dy", dtype, {kRows, columns});
          for (int i = 0; i < 2; ++i) {
            const Value x = g.Input(StrCat("x", i), dtype, {kRows, columns});
            const Value gamma = g.Input(StrCat("gamma", i), dtype, {columns});
            const LayerNormGrads grads =
                LayerNormGrad(x, gamma, rows, rows, dy);
            const RmsNormGrads more = RmsNormGrad(x, gamma, rows, grads.dx);
            g.Output(StrCat("dgamma", i), grads.dgamma);
            g.Output(StrCat("dbeta", i), grads.dbeta);
            g.Output(StrCat("more", i), more.dgamma);
            dy = more.dx;
          }
          g.Output("dx", dy);
        },
        -1);
  }
}

TEST_CASE("gradients of q, k and v side by side") {
  for (const int64_t depth : {16, 12, 5}) {
    CheckBits(
        [=](GraphBuilder& g, DType dtype) {
          const Shape q = {2, 19, 4, depth};
          const Shape k = {2, 19, 2, depth};
          const AttentionGrads grads =
              AttentionGrad(g.Input("q", dtype, q), g.Input("k", dtype, k),
                            g.Input("v", dtype, k), g.Input("o", dtype, q),
                            g.Input("l", DType::kF32, {2, 4, 19}),
                            g.Input("d_o", dtype, q), {.causal = true});
          const std::vector<Value> rows = {
              Reshape(grads.dq, {2, 19, 4 * depth}),
              Reshape(grads.dk, {2, 19, 2 * depth}),
              Reshape(grads.dv, {2, 19, 2 * depth})};
          g.Output("dqkv", Concat(rows, 2));
        },
        4);
  }
}

// A text model and the program that a GPU makes of it.
struct Forward {
  Graph apart;
  PlannedGraph program;
};
Forward MustPlan(const Result<Graph>& graph) {
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const PlanOptions options = {.device = GpuNeeds()};
  const Result<Plan> apart = PlanMemory(*graph, options);
  REQUIRE(apart.ok());
  Result<PlannedGraph> program = PlanProgram(*graph, options);
  REQUIRE_MESSAGE(program.ok(), program.error().message);
  CHECK(program->plan.arena_bytes() <= apart->arena_bytes());
  return {*graph, *std::move(program)};
}

TEST_CASE("programs that only go forward give what their ops give") {
  const GptConfig config = {.name = "tiny",
                            .layers = 2,
                            .heads = 2,
                            .width = 32,
                            .vocabulary = 11,
                            .max_seq = 12};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    CAPTURE(std::string(DTypeName(dtype)));
    const ModelOptions options = {.batch = 2, .seq = 5, .dtype = dtype};
    ModelOptions with_caches = options;
    with_caches.cache = 12;
    for (const auto& graph :
         {BuildGpt(config, ModelPurpose::kEvaluate, options),
          BuildGpt(config, ModelPurpose::kGenerate, with_caches)}) {
      const Forward forward = MustPlan(graph);
      const Graph& made = forward.program.graph;
      const auto epilogues =
          std::ranges::count(made.nodes(), OpKind::kEpilogueMatMul, &Node::op);
      CHECK(epilogues == 2 * 4);
      const Tensors leaves =
          RandomLeaves(forward.apart, {.index_limit = 7}, /*seed=*/2);
      const double tolerance = 2 * ToleranceOf(dtype);
      CheckAgainstInterpreter(made, leaves, tolerance);
      const GpuRun apart = RunInEmulator(forward.apart, leaves);
      const GpuRun together = RunInEmulator(made, leaves);
      CHECK(together.grids < apart.grids);
      for (const auto& each : apart.values) {
        const auto& name = each.first;
        const auto& values = each.second;
        CAPTURE(name);
        double largest = 1, difference = 0;
        for (size_t i = 0; i < values.size(); ++i) {
          largest = std::max(largest, std::abs(values[i]));
          difference = std::max(
              difference, std::abs(values[i] - together.values.at(name)[i]));
        }
        CHECK(difference <= tolerance * largest);
      }
    }
  }
}

TEST_CASE("gpt2-124m's evaluation moves less, in no larger an arena") {
  const Forward forward =
      MustPlan(BuildModel("gpt2-124m", ModelPurpose::kEvaluate,
                          {.batch = 4, .seq = 1024, .dtype = DType::kBF16}));
  const Traffic before = CountTraffic(forward.apart);
  const Traffic after = CountTraffic(forward.program.graph);
  MESSAGE(ToText(before), "\n", ToText(after));
  // By hand, in units of one activation, 4 * 1024 * 768 elements of bf16: of a layer's four
  // biases, of rows of 3, 1, 4 and 1, each was read with the product and the sum written;
  // two residuals were two operands and a sum, of which a product reads one now. Biases
  // themselves are 9 * 768 elements.
  constexpr Bytes kUnit = Bytes{2} * 4 * 1024 * 768;
  constexpr Bytes kBiases = Bytes{2} * 9 * 768;
  CHECK(before.rest.moved() - after.rest.moved() ==
        12 * (2 * (3 + 1 + 4 + 1) * kUnit + 2 * 3 * kUnit + kBiases));
  CHECK(before.total.moved() - after.total.moved() ==
        12 * (2 * (3 + 1 + 4 + 1) * kUnit + 2 * 2 * kUnit));
  CHECK(before.total.launches - after.total.launches == 12 * 6);
}

// In bf16, 64 x 1,024 tokens.
Graph Gpt2Step() {
  const auto forward =
      BuildModel("gpt2-124m", ModelPurpose::kTrain,
                 {.batch = 64, .seq = 1024, .dtype = DType::kBF16});
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  auto step = BuildTrainStep(*forward, "loss");
  REQUIRE(step.ok());
  return *std::move(step);
}

TEST_CASE("gpt2-124m's step moves less, in no larger an arena") {
  const Graph step = Gpt2Step();
  const PlanOptions options = {.device = GpuNeeds()};
  const Result<Plan> plan = PlanMemory(step, options);
  REQUIRE(plan.ok());
  const Result<SampledStep> formed =
      fit::FormEpilogues({.graph = step}, options.device.fusions, {});
  REQUIRE(formed.ok());
  const Result<Plan> given = PlanMemory(formed->graph, options);
  REQUIRE(given.ok());
  CHECK(given->arena_bytes() <= plan->arena_bytes());
  const Result<fit::Fused> fused = fit::Fuse(formed->graph, *given, options);
  REQUIRE(fused.ok());
  CHECK(fused->plan.arena_bytes() <= given->arena_bytes());
  const Traffic before = CountTraffic(step);
  const Traffic after = CountTraffic(fused->graph);
  MESSAGE(ToText(before), "\n", ToText(after));
  // By hand, in units of one activation, 64 * 1024 * 768 elements of bf16: of a layer the
  // first bias, 3 + 3, is in its product; of a bias and gelu, 8 and 8, gelu is left; two
  // biases with a residual, 2 and 3, are in theirs, as is gelu's gradient, 12; three
  // gradients side by side save 6, two sums with a norm's gradient the sum and its
  // reading, 2 each; gradients of biases are made by products that read the same, of
  // rows of 3, 1, 4 and 1.
  const Bytes unit = Bytes{2} * 64 * 1024 * 768;
  const Bytes saved = before.rest.moved() - after.rest.moved();
  constexpr Bytes kUnits = 6 + 8 + 2 * 5 + 12 + 6 + 2 * 2 + (3 + 1 + 4 + 1);
  // What norms leave for later goes to and fro: of 25, two sums of 512 blocks.
  constexpr Bytes kPartials = Bytes{25} * 2 * 512 * 768 * 4 * 2;
  CHECK(saved >= 12 * kUnits * unit - kPartials);
  CHECK(saved <= 12 * kUnits * unit + unit * 4 - kPartials);
  CHECK(after.rest.moved() <= 49'000'000'000);
  // Fourteen a layer; and of 148 updates, 98 are of biases and norms, some side by side.
  CHECK(before.total.launches - after.total.launches >= 12 * 14);
  CHECK(after.total.launches == 287);
}

// Counts what is asked of a device, by name.
class CountingQueue : public gpu::Queue {
 public:
  void Launch(const gpu::KernelCall& call) override { ++counts_[call.name]; }
  void MatMul(const gpu::MatMulCall&) override { ++counts_["product"]; }
  bool Takes(const gpu::MatMulCall&) override { return true; }
  void Fill(std::byte*, uint8_t, Bytes) override { ++counts_["fill"]; }
  void Copy(std::byte*, const std::byte*, Bytes) override { ++counts_["copy"]; }
  gpu::FaultSlot fault() const override { return {}; }

  const std::map<std::string, int64_t>& counts() const { return counts_; }
  int64_t total() const {
    int64_t total = 0;
    for (const auto& [name, count] : counts_) total += count;
    return total;
  }

 private:
  std::map<std::string, int64_t> counts_;
};

// All of a step. Nothing is run, so there is no memory where its arena would be.
CountingQueue CountOf(const PlannedGraph& step) {
  std::byte* const nowhere =
      reinterpret_cast<std::byte*>(uintptr_t{1} << 40);  // NOLINT
  const auto program =
      Program::Resolve(step.graph, step.plan, nowhere, nowhere);
  REQUIRE(program.ok());
  CountingQueue queue;
  const std::span<const Launch> launches = program->launches();
  for (size_t i = 0, count = 0; i < launches.size(); i += count) {
    const gpu::GpuKernel& kernel = gpu::GetKernel(launches[i].op);
    count = 1;
    if (kernel.enqueue_many == nullptr) {
      kernel.enqueue(launches[i], queue);
      continue;
    }
    while (i + count < launches.size() &&
           launches[i + count].op == launches[i].op) {
      ++count;
    }
    kernel.enqueue_many(launches.subspan(i, count), queue);
  }
  return queue;
}

TEST_CASE("gpt2-124m's step sums up its norms' gradients by one grid for 25") {
  const Graph step = Gpt2Step();
  const PlanOptions options = {.device = GpuNeeds()};
  PlanOptions each = options;
  each.device.fusions.sum_parts = nullptr;
  const Result<PlannedGraph> apart = PlanProgram(step, each);
  const Result<PlannedGraph> together = PlanProgram(step, options);
  REQUIRE(apart.ok());
  REQUIRE(together.ok());
  CHECK(together->plan.arena_bytes() <= apart->plan.arena_bytes());
  const CountingQueue before = CountOf(*apart);
  const CountingQueue after = CountOf(*together);
  MESSAGE(before.total(), " for ", after.total());
  // Two norms a layer, and the last.
  CHECK(before.counts().at("layer_norm_grad of params") == 25);
  CHECK(!after.counts().contains("layer_norm_grad of params"));
  CHECK(after.counts().at("sum_partials") == 1);
  CHECK(before.total() - after.total() == 24);
}

}  // namespace
}  // namespace stowage
