// Whole training steps through the GPU's program: its kernels in the emulator,
// its graphs on the fake device.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "gpu/gpu_needs.h"
#include "math/random.h"
#include "nn/gpt.h"
#include "nn/image_nets.h"
#include "nn/layers.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tests/gpu/fake_device.h"
#include "tests/support/instances.h"

namespace stowage::testing {
namespace {

using fit::FindOffloadable;
using fit::Offload;

constexpr int64_t kSteps = 3;

Graph StepOf(const Result<Graph>& forward) {
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  auto step = BuildTrainStep(*forward, "loss",
                             {.optimizer = AdamW{}, .clip_norm = 1.0});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

Graph Mlp(DType dtype) {
  return StepOf(BuildMlp(ModelPurpose::kTrain, {.batch = 16, .dtype = dtype}));
}

// Mlp with a loss scale that grows, and is too large then.
Graph ScaledMlp(DType dtype) {
  const auto forward =
      BuildMlp(ModelPurpose::kTrain, {.batch = 16, .dtype = dtype});
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  auto step = BuildTrainStep(*forward, "loss",
                             {.optimizer = Momentum{},
                              .clip_norm = 1.0,
                              .loss_scaling = LossScaling{
                                  .init_scale = 0x1p18, .growth_interval = 1}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

// gpt-nano in small: its ops, its dropout, a length that no tile divides.
Result<Graph> SmallGpt(DType dtype) {
  return BuildGpt({.name = "gpt",
                   .layers = 2,
                   .heads = 2,
                   .width = 64,
                   .vocabulary = 96,
                   .max_seq = 40},
                  ModelPurpose::kTrain,
                  {.batch = 2, .seq = 37, .dtype = dtype, .dropout = 0.1});
}
Graph Gpt(DType dtype) { return StepOf(SmallGpt(dtype)); }

// Inputs are functions of the step: integers below what the model takes, floats
// in [0, 1).
void WriteInputs(Runner& train, int64_t step) {
  const Graph& graph = train.graph();
  for (const ValueId id : graph.Leaves(Role::kInput)) {
    const ValueInfo& value = graph.value(id);
    const auto n = static_cast<size_t>(value.type.shape.num_elements());
    if (value.name == "step" || value.name == "seed") {
      REQUIRE(train.Write(value.name, step).ok());
    } else if (value.name == "lr") {
      REQUIRE(train.Write("lr", 0.01f / static_cast<float>(step)).ok());
    } else {
      std::vector<uint32_t> draws(n);
      for (size_t i = 0; i < n; ++i) {
        draws[i] =
            math::Philox4x32(
                {{static_cast<uint32_t>(i), static_cast<uint32_t>(id), 0, 0}},
                {{static_cast<uint32_t>(step), 0}})
                .word[0];
      }
      if (value.type.dtype == DType::kF32) {
        std::vector<float> x(n);
        for (size_t i = 0; i < n; ++i) {
          x[i] = std::ldexp(static_cast<float>(draws[i] >> 8), -24);
        }
        REQUIRE(train.Write(value.name, x).ok());
      } else {
        std::vector<int32_t> x(n);
        for (size_t i = 0; i < n; ++i) {
          x[i] = static_cast<int32_t>(draws[i] % 10);
        }
        REQUIRE(train.Write(value.name, x).ok());
      }
    }
  }
}

// What a run leaves behind: the loss of every step, the scale after it where there is
// one, and all params and states.
struct Outcome {
  std::vector<float> losses;
  std::vector<float> scales;
  std::vector<std::byte> persistent;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct RunOptions {
  bool poison = false;
  uint64_t ahead = 0;  // steps that are started before a loss is read
};

Outcome Run(const Graph& step, Backend& backend, const PlanOptions& planning,
            const RunOptions& options = {}) {
  auto plan = PlanMemory(step, planning);
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  auto session = Session::Create({{"train", step, *std::move(plan)}}, backend,
                                 {.arena = {}, .poison = options.poison});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  session->Initialize(7);
  Runner& train = session->front();
  Outcome outcome;
  const auto read = [&](uint64_t number) {
    const auto loss = train.ReadScalar("loss", number);
    REQUIRE_MESSAGE(loss.ok(), loss.error().message);
    outcome.losses.push_back(*loss);
    if (!step.Find("new:loss_scale")) return;
    outcome.scales.push_back(*train.ReadScalar("new:loss_scale", number));
  };
  for (int64_t i = 1; i <= kSteps; ++i) {
    WriteInputs(train, i);
    const uint64_t started = train.Start();
    if (started > options.ahead) read(started - options.ahead);
  }
  for (uint64_t last = kSteps - options.ahead + 1; last <= kSteps; ++last) {
    read(last);
  }
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : step.Leaves(role)) {
      const ValueInfo& value = step.value(id);
      std::vector<std::byte> bytes(static_cast<size_t>(value.type.bytes()));
      REQUIRE(train.ReadBytes(value.name, value.type.dtype, bytes).ok());
      outcome.persistent.insert(outcome.persistent.end(), bytes.begin(),
                                bytes.end());
    }
  }
  return outcome;
}

PlanOptions GpuPlanning() { return {.device = GpuNeeds()}; }

Outcome RunOnFake(const Graph& step, const FakeOptions& fake = {},
                  const PlanOptions& planning = GpuPlanning(),
                  const RunOptions& options = {}) {
  const auto backend = MakeFakeBackend(fake, nullptr);
  return Run(step, *backend, planning, options);
}

// The same with nothing special, which many are compared with.
const Outcome& OnceOnFake(Graph (*build)(DType), DType dtype) {
  static std::map<std::pair<bool, DType>, Outcome> outcomes;
  const auto [at, is_new] = outcomes.try_emplace({build == Gpt, dtype});
  if (is_new) at->second = RunOnFake(build(dtype));
  return at->second;
}

Outcome RunOnCpu(const Graph& step) {
  const auto cpu = MakeCpuBackend({.threads = 1});
  return Run(step, *cpu, {.device = cpu->Needs()});
}

// Elsewhere in the arena: nothing in place, nothing shared, and the reserve
// larger than it need be.
PlanOptions AnotherLayout() {
  return {.packer = Packer::kLinear,
          .in_place = false,
          .device = {.workspace = GpuWorkspace,
                     .reserve = [](const Graph& graph, Bytes alignment) {
                       return GpuReserve(graph, alignment) + 3 * alignment;
                     }}};
}

void CheckSameBits(Graph (*build)(DType), DType dtype) {
  const Graph step = build(dtype);
  const Outcome& once = OnceOnFake(build, dtype);
  CHECK(RunOnFake(step, {.seed = 5}) == once);  // another order of threads
  CHECK(RunOnFake(step, {.seed = 6, .warp_by_warp = true}) == once);
  CHECK(RunOnFake(step, {}, AnotherLayout()) == once);
  CHECK(RunOnFake(step, {.lazy_compute = true}, GpuPlanning(), {.ahead = 2}) ==
        once);
  // Op by op, with every slot full of NaN from its death on.
  CHECK(RunOnFake(step, {}, GpuPlanning(), {.poison = true}) == once);
}

TEST_CASE("what is kept on the host is copied beside the kernels, to the bit") {
  for (const DType dtype : Instances<DType>({DType::kF32, DType::kBF16})) {
    for (const auto build : {Mlp, Gpt}) {
      const Graph step = build(dtype);
      const auto moved = Offload(step, FindOffloadable(step));
      REQUIRE_MESSAGE(moved.ok(), moved.error().message);
      const Outcome& once = OnceOnFake(build, dtype);
      CHECK(RunOnFake(*moved) == once);
      // Copies as late as they may be, kernels as late as they may be, and both.
      for (const bool lazy_compute : {false, true}) {
        const FakeOptions late{.lazy_compute = lazy_compute, .lazy_copy = true};
        CHECK(RunOnFake(*moved, late) == once);
        CHECK(RunOnFake(*moved, late, GpuPlanning(), {.ahead = 2}) == once);
      }
      CHECK(RunOnFake(*moved, {}, GpuPlanning(), {.poison = true}) == once);
    }
  }
}

TEST_CASE("what is kept on the host is one block of pinned memory") {
  const Graph step = Mlp(DType::kF32);
  const Graph moved = *Offload(step, FindOffloadable(step));
  FakeDevice* fake = nullptr;
  const auto pinned_blocks = [&](const Graph& graph) {
    const auto backend = MakeFakeBackend({}, &fake);
    Run(graph, *backend, GpuPlanning());
    CHECK(fake->calls("Allocate") == 1);
    return fake->calls("AllocatePinned");
  };
  CHECK(pinned_blocks(moved) == pinned_blocks(step) + 1);
}

TEST_CASE("f32: the losses of mlp are the CPU's") {
  const Outcome cpu = RunOnCpu(Mlp(DType::kF32));
  const Outcome& gpu = OnceOnFake(Mlp, DType::kF32);
  for (size_t i = 0; i < kSteps; ++i) {
    CHECK(gpu.losses[i] == doctest::Approx(cpu.losses[i]).epsilon(2e-5));
  }
}

TEST_CASE("f32: the losses of a small gpt are the CPU's") {
  const Outcome cpu = RunOnCpu(Gpt(DType::kF32));
  const Outcome& gpu = OnceOnFake(Gpt, DType::kF32);
  for (size_t i = 0; i < kSteps; ++i) {
    CHECK(gpu.losses[i] == doctest::Approx(cpu.losses[i]).epsilon(2e-5));
  }
}

TEST_CASE("bf16: the losses are the f32 losses within bf16's rounding") {
  for (const auto build : {Mlp, Gpt}) {
    const Outcome cpu = RunOnCpu(build(DType::kF32));
    const Outcome& gpu = OnceOnFake(build, DType::kBF16);
    for (size_t i = 0; i < kSteps; ++i) {
      CHECK(gpu.losses[i] == doctest::Approx(cpu.losses[i]).epsilon(0.02));
    }
    CHECK(gpu.losses[0] != cpu.losses[0]);  // it did compute in bf16
  }
}

TEST_CASE(
    "f16: the scale moves as on the CPU, and the losses are those of f32") {
  const Outcome cpu = RunOnCpu(ScaledMlp(DType::kF16));
  const Outcome& gpu = OnceOnFake(ScaledMlp, DType::kF16);
  constexpr float kScales[] = {0x1p19f, 0x1p18f, 0x1p17f};
  for (size_t i = 0; i < kSteps; ++i) {
    CHECK(cpu.scales[i] == kScales[i]);
    CHECK(gpu.scales[i] == kScales[i]);
    CHECK(gpu.losses[i] == doctest::Approx(cpu.losses[i]).epsilon(0.002));
  }
  CheckSameBits(ScaledMlp, DType::kF16);
}

TEST_CASE("gpt-nano itself, in f32 and in bf16" *
          doctest::skip(!TakesAllInstances())) {
  const auto step = [](DType dtype) {
    return StepOf(BuildModel("gpt-nano", ModelPurpose::kTrain,
                             {.batch = 1, .seq = 32, .dtype = dtype}));
  };
  const Outcome cpu = RunOnCpu(step(DType::kF32));
  const Outcome f32 = RunOnFake(step(DType::kF32));
  const Outcome bf16 = RunOnFake(step(DType::kBF16));
  for (size_t i = 0; i < kSteps; ++i) {
    CHECK(f32.losses[i] == doctest::Approx(cpu.losses[i]).epsilon(2e-5));
    CHECK(bf16.losses[i] == doctest::Approx(cpu.losses[i]).epsilon(0.02));
  }
  CHECK(RunOnFake(step(DType::kF32), {}, AnotherLayout()) == f32);
  CHECK(RunOnFake(step(DType::kBF16), {}, AnotherLayout()) == bf16);
}

TEST_CASE("every optimizer, and the inputs of groups, are those of the CPU") {
  const auto forward = BuildMlp(ModelPurpose::kTrain, {.batch = 16});
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  for (const NamedOptimizer& named : NamedOptimizers()) {
    CAPTURE(named.name);
    TrainOptions options = {.optimizer = named.optimizer};
    if (std::holds_alternative<AdamW>(named.optimizer)) {
      options.groups = {{.pattern = "*.bias",
                         .optimizer = AdamW{.amsgrad = true},
                         .maximize = true,
                         .name = "biases",
                         .inputs = {true, true, true}}};
    }
    const auto step = BuildTrainStep(*forward, "loss", options);
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    const Outcome cpu = RunOnCpu(*step);
    const Outcome gpu = RunOnFake(*step);
    for (size_t i = 0; i < kSteps; ++i) {
      CHECK(gpu.losses[i] == doctest::Approx(cpu.losses[i]).epsilon(1e-4));
    }
  }
}

TEST_CASE("mlp: any layout, replay and order of threads gives the same bits") {
  CheckSameBits(Mlp, DType::kF32);
  CheckSameBits(Mlp, DType::kBF16);
}

TEST_CASE(
    "f32 gpt: any layout, replay and order of threads gives the same "
    "bits") {
  CheckSameBits(Gpt, DType::kF32);
}

TEST_CASE(
    "bf16 gpt: any layout, replay and order of threads gives the same "
    "bits" *
    doctest::skip(!TakesAllInstances())) {
  CheckSameBits(Gpt, DType::kBF16);
}

int CountOf(const Graph& graph, OpKind op) {
  return static_cast<int>(std::ranges::count(graph.nodes(), op, &Node::op));
}

TEST_CASE("with epilogues: the losses of the parts, the same in every budget") {
  for (const DType dtype : Instances<DType>({DType::kBF16, DType::kF32})) {
    const Result<Graph> forward = SmallGpt(dtype);
    REQUIRE_MESSAGE(forward.ok(), forward.error().message);
    // Without a norm of all gradients, which would be the peak.
    const Graph step =
        *BuildTrainStep(*forward, "loss", {.optimizer = AdamW{}});
    StepFitter fitter(OfGraph(step),
                      {.plan = GpuPlanning(),
                       .optimizations = {.recompute = Recompute::kAuto}});
    const Result<FittedStep> free = fitter.Fit(std::nullopt);
    REQUIRE_MESSAGE(free.ok(), free.error().message);
    // Of two layers, four sums each, two of them with a residual; gelu's gradients; and
    // four gradients of biases each, which leaves that of the positions.
    CHECK(CountOf(free->graph, OpKind::kEpilogueMatMul) == 18);
    CHECK(CountOf(free->graph, OpKind::kGeluTanhGrad) == 0);
    CHECK(CountOf(free->graph, OpKind::kReduceSum) == 1);
    const Outcome once = RunOnFake(free->graph);
    const Outcome parts = RunOnFake(step);
    const double rounding = dtype == DType::kF32 ? 2e-5 : 0x1p-7;
    for (size_t i = 0; i < kSteps; ++i) {
      CHECK(once.losses[i] ==
            doctest::Approx(parts.losses[i]).epsilon(rounding));
    }
    if (dtype == DType::kBF16) CHECK(once.persistent != parts.persistent);
    // A library without them: each part is rounded.
    const Outcome refused = RunOnFake(free->graph, {.refuses_epilogues = true});
    for (size_t i = 0; i < kSteps; ++i) {
      CHECK(refused.losses[i] ==
            doctest::Approx(parts.losses[i]).epsilon(rounding));
    }
    const Result<Bytes> smallest = fitter.SmallestBudget();
    REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
    for (const Bytes budget :
         {*smallest, (*smallest + free->plan.arena_bytes()) / 2}) {
      const Result<FittedStep> fitted = fitter.Fit(budget);
      REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
      CHECK(fitted->price.recomputed_nodes > 0);
      CHECK(RunOnFake(fitted->graph, {.seed = 7}) == once);
      CHECK(RunOnFake(fitted->graph, {}, AnotherLayout()) == once);
      CHECK(RunOnFake(fitted->graph, {.refuses_epilogues = true}, GpuPlanning(),
                      {.poison = true}) == refused);
    }
  }
}

// Grids of a step whose names hold `part`.
int64_t GridsOfStep(const Graph& step, std::string_view part) {
  FakeDevice* fake = nullptr;
  const auto backend = MakeFakeBackend({}, &fake);
  Run(step, *backend, GpuPlanning());
  int64_t grids = 0;
  for (const std::string& name : fake->executed()) {
    grids += name.find(part) != std::string::npos ? 1 : 0;
  }
  CHECK(grids % kSteps == 0);
  return grids / kSteps;
}

TEST_CASE("the sums of norms' gradients go in one grid, with the same bits") {
  for (const DType dtype : Instances<DType>({DType::kBF16, DType::kF32})) {
    const Result<Graph> forward = SmallGpt(dtype);
    REQUIRE_MESSAGE(forward.ok(), forward.error().message);
    for (const double clip : {0.0, 1.0}) {
      CAPTURE(clip);
      const Graph step = *BuildTrainStep(
          *forward, "loss",
          {.optimizer = AdamW{},
           .clip_norm = clip > 0 ? std::optional(clip) : std::nullopt});
      const FitOptions options = {
          .plan = GpuPlanning(),
          .optimizations = {.recompute = Recompute::kAuto}};
      FitOptions each = options;
      each.plan.device.fusions.sum_parts = nullptr;
      StepFitter fitter(OfGraph(step), options);
      const Result<FittedStep> together = fitter.Fit(std::nullopt);
      const Result<FittedStep> apart =
          StepFitter(OfGraph(step), each).Fit(std::nullopt);
      REQUIRE(together.ok());
      REQUIRE(apart.ok());
      CHECK(together->plan.arena_bytes() <= apart->plan.arena_bytes());
      // Of two layers, and the last norm, whose gradient is made first: at the peak, where
      // its parts find no room.
      CHECK(GridsOfStep(apart->graph, "layer_norm_grad of params") == 5);
      CHECK(GridsOfStep(together->graph, "layer_norm_grad of params") == 1);
      CHECK(GridsOfStep(together->graph, "sum_partials") == 1);
      const Outcome once = RunOnFake(apart->graph);
      CHECK(RunOnFake(together->graph) == once);
      CHECK(RunOnFake(together->graph, {.seed = 7}, AnotherLayout(),
                      {.poison = true}) == once);
      const Result<Bytes> smallest = fitter.SmallestBudget();
      REQUIRE(smallest.ok());
      const Result<FittedStep> small = fitter.Fit(*smallest);
      REQUIRE(small.ok());
      CHECK(RunOnFake(small->graph) == once);
    }
  }
}

TEST_CASE("an epilogue that fails for another reason is an error") {
  const Graph step = Mlp(DType::kBF16);
  StepFitter fitter(OfGraph(step), {.plan = GpuPlanning()});
  const Result<FittedStep> fitted = fitter.Fit(std::nullopt);
  REQUIRE(fitted.ok());
  // The first product has a bias.
  const auto first =
      std::ranges::find_if(fitted->graph.nodes(), [](const Node& node) {
        return node.op == OpKind::kMatMul || node.op == OpKind::kEpilogueMatMul;
      });
  REQUIRE(first->op == OpKind::kEpilogueMatMul);
  FakeDevice* fake = nullptr;
  const auto backend = MakeFakeBackend({}, &fake);
  fake->Fail("PrepareMatMul");
  const auto session =
      Session::Create({{"train", fitted->graph, fitted->plan}}, *backend);
  REQUIRE(!session.ok());
  CHECK(session.error().code == ErrorCode::kDevice);
}

TEST_CASE("the updates of all params go in few grids") {
  const Graph step = Mlp(DType::kBF16);
  FakeDevice* fake = nullptr;
  const auto backend = MakeFakeBackend({}, &fake);
  Run(step, *backend, GpuPlanning());
  const auto params = static_cast<int64_t>(step.Leaves(Role::kParam).size());
  REQUIRE(params == 6);
  int64_t grids = 0;
  for (const std::string& name : fake->executed()) {
    grids += name.find("adamw") != std::string::npos ? 1 : 0;
  }
  CHECK(grids == kSteps);  // clipping puts all updates at the end, side by side
}

TEST_CASE("a label out of range names the loss of the model") {
  const Graph step = Mlp(DType::kF32);
  const auto backend = MakeFakeBackend({}, nullptr);
  auto session = Session::Create(
      {{"train", step, *PlanMemory(step, GpuPlanning())}}, *backend);
  REQUIRE(session.ok());
  session->Initialize(7);
  Runner& train = session->front();
  WriteInputs(train, 1);
  std::vector<int32_t> labels(16, 9);
  labels[11] = 10;
  REQUIRE(train.Write("y", labels).ok());
  const StepCode code = train.Step();
  REQUIRE(code == StepCode::kIndexOutOfRange);
  CHECK(train.Explain(code).message.find("failed at \"loss\"") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage::testing
