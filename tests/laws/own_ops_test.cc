// Ops that a program defines itself obey the laws of all others: a derivative that
// is one, planned equals unplanned to the bit, budgets that change no bit, micro-batches,
// plans that are found again.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/train_step.h"
#include "autodiff/vjp.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "cpu/kernel.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/ops/shape_rules.h"
#include "nn/layers.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/support/run_steps.h"
#include "train/gradient_check.h"
#include "train/training.h"

namespace stowage {
namespace {

using op_defs::AttrKind;
using op_defs::CheckAttrs;
using op_defs::CheckDType;
using op_defs::CheckPositive;
using op_defs::CheckSameType;
using op_defs::DTypes;
using op_defs::Typed;
using op_defs::TypesResult;
using testing::Differences;
using testing::RunSteps;

// --- huber: elementwise, two operands, an attribute, a gradient op ------------

TypesResult InferHuber(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"delta", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "delta"));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "x", 1, "y"));
  return Typed(args, {args.type(0)});
}

template <typename T, typename F>
void Map(const Launch& launch, cpu::ThreadPool& pool, F f) {
  constexpr int64_t kChunk = 1024;
  const int64_t size = launch.outputs[0].size();
  const T* const x = launch.inputs[0].as<const T>();
  const T* const y = launch.inputs[1].as<const T>();
  T* const out = launch.outputs[0].as<T>();
  const auto delta = static_cast<T>(launch.attrs->Float("delta"));
  pool.ParallelFor((size + kChunk - 1) / kChunk, [&](int64_t chunk, int) {
    const int64_t end = std::min(size, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) {
      out[i] = f(x[i] - y[i], delta);
    }
  });
}

template <typename F>
StepCode MapAnyFloat(const Launch& launch, cpu::ThreadPool& pool, F f) {
  if (launch.inputs[0].dtype() == DType::kF64) {
    Map<double>(launch, pool, f);
  } else {
    Map<float>(launch, pool, f);
  }
  return StepCode::kOk;
}

StepCode RunHuber(const Launch& launch, cpu::ThreadPool& pool) noexcept {
  return MapAnyFloat(launch, pool, [](auto d, auto delta) {
    const auto a = std::abs(d);
    return a <= delta ? d * d / 2 : delta * (a - delta / 2);
  });
}

StepCode RunHuberSlope(const Launch& launch, cpu::ThreadPool& pool) noexcept {
  return MapAnyFloat(launch, pool, [](auto d, auto delta) {
    return std::max(-delta, std::min(d, delta));
  });
}

constexpr OpDef kHuberDef = {.num_inputs = 2,
                             .infer = InferHuber,
                             .flops = op_defs::FlopsPerResultElement<5>,
                             .may_overwrite = 0b11,
                             .per_example = true};
const OpKind kHuber = *DefineOp("huber_for_test", kHuberDef);
const OpKind kHuberSlope = *DefineOp("huber_slope_for_test", kHuberDef);

void HuberRule(VjpContext& v) {
  const Value slope = Mul(
      v.cotangent(), Apply(kHuberSlope, {v.input(0), v.input(1)}, v.attrs()));
  v.Contribute(0, slope);
  if (v.needs(1)) v.Contribute(1, Neg(slope));
}

// --- a gradient of one's own: the value of x, and twice the gradient ----------

TypesResult InferSame(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  return Typed(args, {args.type(0)});
}

const OpKind kTwiceBack = *DefineOp(
    "twice_back_for_test",
    {.infer = InferSame,
     .view = [](const OpArgs&, int,
                const ViewLayout& x) -> std::optional<ViewLayout> { return x; },
     .accepts = AcceptAnyStrides,
     .per_example = true});

// --- an op whose derivative is wrong, and one without any definition ----------

const OpKind kWrongSlope = *DefineOp("wrong_slope_for_test", kHuberDef);
const OpKind kBare = *DefineOp("bare_for_test", {.infer = InferSame});

[[maybe_unused]] const Status kDefined[] = {
    DefineVjp(kHuber, Differentiable(HuberRule)),
    DefineVjp(kTwiceBack, Differentiable([](VjpContext& v) {
                const Value g = v.cotangent();
                v.Contribute(0, Add(g, g));
              })),
    DefineVjp(kWrongSlope, Differentiable([](VjpContext& v) {
                v.Contribute(0, v.cotangent());
                v.Contribute(1, Neg(v.cotangent()));
              })),
    cpu::DefineKernel(kHuber, {.run = RunHuber}),
    cpu::DefineKernel(kHuberSlope, {.run = RunHuberSlope}),
    cpu::DefineKernel(kWrongSlope, {.run = RunHuber}),
};

Attrs Delta(double delta) { return {{"delta", delta}}; }

Graph HuberLoss(OpKind op) {
  GraphBuilder g("huber loss");
  const Value x = g.Input("x", DType::kF64, {4, 3});
  const Value y = g.Input("y", DType::kF64, {4, 3});
  const Value weight = g.Input("weight", DType::kF64, {4, 3});
  // Away from the kink: differences lie in (-2, 2).
  g.Output("loss", ReduceSum(Mul(Apply(op, {x, y}, Delta(2.5)), weight)));
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

TEST_CASE("the definitions were taken") {
  for (const Status& status : kDefined) CHECK(status.ok());
  CHECK(!DefineVjp(OpKind::kAdd, {}).ok());
  CHECK(!cpu::DefineKernel(OpKind::kAdd, {.run = RunHuber}).ok());
}

TEST_CASE("the gradient of an own op is checked by differences") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const auto checked = CheckGradients(HuberLoss(kHuber), "loss", *cpu);
  REQUIRE_MESSAGE(checked.ok(), checked.error().message);
  REQUIRE(checked->size() == 3);
  for (const CheckedGradient& row : *checked) {
    CHECK(std::abs(row.gradient) > 1e-3);
    CHECK(row.gradient == doctest::Approx(row.difference).epsilon(1e-7));
  }
}

TEST_CASE("a derivative that is wrong is found, with its leaf and values") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const auto checked = CheckGradients(HuberLoss(kWrongSlope), "loss", *cpu);
  REQUIRE(!checked.ok());
  CHECK(checked.error().message.starts_with(
      "[gradient_check] the gradient of \"x\" is "));
}

// The gradient is twice the slope here: as far from it as the slope is from 0.
TEST_CASE("what is more than the tolerance apart is found, and no less") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  GraphBuilder g("twice");
  const Value x = g.Input("x", DType::kF64, {500});
  const Value y = Apply(kTwiceBack, {x});
  g.Output("loss", ReduceSum(Mul(y, y)));
  const Graph graph = *g.Finish();
  const auto within = CheckGradients(graph, "loss", *cpu, {.tolerance = 1.001});
  REQUIRE_MESSAGE(within.ok(), within.error().message);
  const double slope = within->front().difference;
  REQUIRE(std::abs(slope) > 1);  // or the tolerance is not relative to it
  CHECK(within->front().gradient == doctest::Approx(2 * slope).epsilon(1e-6));
  const auto beyond = CheckGradients(graph, "loss", *cpu, {.tolerance = 0.999});
  REQUIRE(!beyond.ok());
  CHECK(beyond.error().message.find("more than 0.999 apart") !=
        std::string::npos);
  CHECK(!CheckGradients(graph, "loss", *cpu).ok());
}

TEST_CASE("gradients are checked in f64 alone, of outputs alone") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  GraphBuilder g("single");
  const Value x = g.Input("x", DType::kF32, {3});
  g.Output("loss", ReduceSum(x));
  const auto single = CheckGradients(*g.Finish(), "loss", *cpu);
  REQUIRE(!single.ok());
  CHECK(single.error().message ==
        "[gradient_check] \"x\" is f32(3); gradients are checked in f64");
  GraphBuilder h("inner");
  const Value y = h.Input("y", DType::kF64, {3});
  const Value inner = h.Name("inner", ReduceSum(y));
  h.Output("outer", Add(inner, inner));
  const auto hidden = CheckGradients(*h.Finish(), "inner", *cpu);
  REQUIRE(!hidden.ok());
  CHECK(hidden.error().message.find("\"inner\" is no output of \"inner\"") !=
        std::string::npos);
}

TEST_CASE("a view of one's own changes the gradient and no value") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  GraphBuilder g("twice");
  const Value x = g.Input("x", DType::kF64, {5});
  const Value y = g.Name("y", Apply(kTwiceBack, {x}));
  g.Output("loss", ReduceSum(Mul(y, y)));
  const Graph graph = *g.Finish();
  // 4x where 2x is the slope; differences see the latter.
  const auto checked = CheckGradients(graph, "loss", *cpu);
  REQUIRE(!checked.ok());
  const auto backward = BuildBackward(graph, "loss", {.wrt = {"x"}});
  REQUIRE(backward.ok());
  const Graph step = *LinkBackward(graph, *backward, "loss");
  Session session = *Session::Create(
      {{"step", step, *PlanMemory(step, {.device = cpu->Needs()})}}, *cpu);
  Runner& runner = session.front();
  REQUIRE(runner.Write("x", std::vector<double>{1, 2, 3, 4, 5}).ok());
  REQUIRE(runner.Step() == StepCode::kOk);
  std::vector<double> loss(1), dx(5);
  REQUIRE(runner.Read("loss", &loss).ok());
  REQUIRE(runner.Read("grad:x", &dx).ok());
  CHECK(loss[0] == 55);
  CHECK(dx == std::vector<double>{4, 8, 12, 16, 20});
}

TEST_CASE("no gradient passes a stop_gradient") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  GraphBuilder g("stopped");
  const Value x = g.Input("x", DType::kF64, {3});
  g.Output("loss", ReduceSum(Mul(x, StopGradient(x))));
  g.Output("all stopped", ReduceSum(StopGradient(x)));
  const Graph graph = *g.Finish();
  const auto backward = BuildBackward(graph, "loss", {.wrt = {"x"}});
  REQUIRE(backward.ok());
  const Graph step = *LinkBackward(graph, *backward, "loss");
  Session session = *Session::Create(
      {{"step", step, *PlanMemory(step, {.device = cpu->Needs()})}}, *cpu);
  Runner& runner = session.front();
  REQUIRE(runner.Write("x", std::vector<double>{1, 2, 3}).ok());
  REQUIRE(runner.Step() == StepCode::kOk);
  std::vector<double> dx(3);
  REQUIRE(runner.Read("grad:x", &dx).ok());
  CHECK(dx == std::vector<double>{1, 2, 3});  // not 2x
  CHECK(!BuildBackward(graph, "all stopped", {.wrt = {"x"}}).ok());
}

TEST_CASE("an op lacks what it was not given, and says so") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  GraphBuilder g("bare");
  const Value w = g.Param("w", DType::kF32, {3}, Init::Normal(1));
  g.Output("loss", ReduceSum(Apply(kBare, {w})));
  const Graph graph = *g.Finish();
  const auto backward = BuildBackward(graph, "loss");
  REQUIRE(!backward.ok());
  CHECK(backward.error().message.find(
            "a bare_for_test, which has no gradient: none is defined; "
            "DefineVjp gives an op its derivative") != std::string::npos);
  const auto session = Session::Create(
      {{"bare", graph, *PlanMemory(graph, {.device = cpu->Needs()})}}, *cpu);
  REQUIRE(!session.ok());
  CHECK(session.error().message.find("bare_for_test of") != std::string::npos);
  CHECK(session.error().message.find("has no kernel") != std::string::npos);
}

// A net with all of it.
Result<Graph> Net(int64_t batch) {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {batch, 16});
  const Value y = g.Input("y", DType::kF32, {batch, 4});
  Value h = x;
  for (int i = 0; i < 6; ++i) h = Tanh(Linear(h, StrCat("fc", i), 64));
  h = Apply(kTwiceBack, {h});
  const Value guess = Linear(h, "out", 4);
  g.Output("loss", ReduceMean(Apply(kHuber, {guess, y}, Delta(0.5))));
  return g.Finish();
}

TEST_CASE("a step with own ops is the same to the bit, planned or not") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const Graph step = *BuildTrainStep(*Net(12), "loss");
  const auto unplanned = RunSteps(step, *cpu, {.steps = 4, .planned = false});
  CHECK(Differences(RunSteps(step, *cpu, {.steps = 4}), unplanned) == "");
  CHECK(Differences(RunSteps(step, *cpu, {.steps = 4, .poison = true}),
                    unplanned) == "");
}

// The losses of training for some steps.
std::vector<float> Losses(Training& training, int64_t batch) {
  std::vector<float> xs, ys, losses;
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t k = 0; k < 16; ++k) {
      xs.push_back(std::sin(static_cast<float>(17 * i + 3 * k)));
    }
    for (size_t k = 0; k < 4; ++k) {
      ys.push_back(xs[static_cast<size_t>(16 * i) + k] * 2);
    }
  }
  training.Initialize(7);
  Runner& step = training.step();
  for (int64_t i = 1; i <= 30; ++i) {
    REQUIRE(step.Write("x", xs).ok());
    REQUIRE(step.Write("y", ys).ok());
    REQUIRE(step.Write("lr", 1e-2f).ok());
    REQUIRE(step.Write("step", i).ok());
    REQUIRE(step.Step() == StepCode::kOk);
    losses.push_back(*step.ReadScalar("loss"));
  }
  return losses;
}

TEST_CASE(
    "a net with own ops trains inside a budget, to the bit, and in "
    "micro-batches") {
  constexpr int64_t kBatch = 256;
  const auto cpu = MakeCpuBackend({.threads = 2});
  PlanCache cache;
  TrainingSpec spec = {.model = Net,
                       .batch = kBatch,
                       .optimizations = NoOptimizations(),
                       .cache = cache};
  Result<Training> whole = Train(spec, *cpu);
  REQUIRE_MESSAGE(whole.ok(), whole.error().message);
  const std::vector<float> expected = Losses(*whole, kBatch);
  CHECK(expected.back() < 0.5f * expected.front());
  const Bytes arena = whole->plan().arena_bytes();

  spec.optimizations->recompute = Recompute::kAuto;
  spec.budget = arena * 8 / 10;
  for (const CacheUse use : {CacheUse::kMiss, CacheUse::kHit}) {
    Result<Training> tight = Train(spec, *cpu);
    REQUIRE_MESSAGE(tight.ok(), tight.error().message);
    CHECK(tight->plan().cache == use);
    CHECK(tight->plan().arena_bytes() <= *spec.budget);
    CHECK(tight->plan().step.price.recomputed_nodes > 0);
    CHECK(Losses(*tight, kBatch) == expected);
  }

  spec.optimizations = NoOptimizations();
  spec.optimizations->micro_batches = {1, 2, 4, 8};
  spec.budget = arena * 7 / 10;
  Result<Training> micro_batches = Train(spec, *cpu);
  REQUIRE_MESSAGE(micro_batches.ok(), micro_batches.error().message);
  CHECK(micro_batches->plan().step.price.micro_batches > 1);
  const std::vector<float> losses = Losses(*micro_batches, kBatch);
  for (size_t i = 0; i < losses.size(); ++i) {
    CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  }
}

}  // namespace
}  // namespace stowage
