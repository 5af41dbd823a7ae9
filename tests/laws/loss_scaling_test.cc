// Loss scaling: a scale that is a power of two changes no bit of a step in f32; a step
// whose gradients are not finite is as if it had not been; the scale moves as
// torch.amp.GradScaler's does, written out here; and f16 learns by it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "autodiff/micro_batches.h"
#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "nn/layers.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using testing::Differences;
using testing::RunSteps;
using testing::Visible;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kBatch = 4;

// Two layers and a mean of squares, times `factor`.
Graph Net(DType dtype, double factor = 1, int64_t batch = kBatch) {
  GraphBuilder g("net");
  const Value x = Cast(g.Input("x", DType::kF32, {batch, 6}), dtype);
  const Value y = g.Input("y", DType::kI32, {batch});
  const Value hidden = Tanh(Linear(x, "fc1", 96));
  // Of as many elements as moments of eight bits want.
  const Value logits = Linear(Tanh(Linear(hidden, "fc2", 64)), "fc3", 11);
  const Value loss = MulScalar(CrossEntropy(logits, y), factor);
  g.Output("loss", g.Name("loss", loss));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

Graph Step(const Graph& forward, const TrainOptions& options) {
  const Result<Graph> step = BuildTrainStep(forward, "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *step;
}

LossScaling Fixed(double scale) {
  return {.init_scale = scale, .is_dynamic = false};
}

// One step of a run: which inputs it has, and whether one of these is infinite, and of
// which example.
struct Given {
  int64_t inputs;
  bool is_bad = false;
  size_t example = 1;
};

void WriteInputs(Runner& run, const Given& given, int64_t step, float lr) {
  std::mt19937 random(static_cast<uint32_t>(given.inputs));
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> x(kBatch * 6);
  for (float& each : x) each = draw(random);
  if (given.is_bad) x[6 * given.example + 1] = kInfinity;
  std::vector<int32_t> y(kBatch);
  for (int32_t& each : y) each = static_cast<int32_t>(random() % 11);
  REQUIRE(run.Write("x", x).ok());
  REQUIRE(run.Write("y", y).ok());
  REQUIRE(run.Write("lr", lr).ok());
  if (run.graph().Find("step")) REQUIRE(run.Write("step", step).ok());
  if (run.graph().Find("seed")) REQUIRE(run.Write("seed", int64_t{5}).ok());
}

// A step that runs, planned for the CPU.
class Trainer {
 public:
  explicit Trainer(const Graph& step)
      : cpu_(MakeCpuBackend({.threads = 1})),
        session_(*Session::Create(
            {{"train", step, *PlanMemory(step, {.device = cpu_->Needs()})}},
            *cpu_)) {
    session_.Initialize(3);
  }

  void Take(const Given& given, float lr = 0.01f) {
    WriteInputs(run(), given, ++steps_, lr);
    REQUIRE(run().Step() == StepCode::kOk);
  }
  Runner& run() { return session_.front(); }
  float Scalar(const char* name) { return *run().ReadScalar(name); }
  int64_t Count(const char* name) {
    std::vector<int64_t> count(1);
    REQUIRE(run().Read(name, &count).ok());
    return count[0];
  }

  // Params and states but those of the loss scale.
  std::map<std::string, std::vector<std::byte>> Kept() {
    std::map<std::string, std::vector<std::byte>> kept;
    for (const Role role : {Role::kParam, Role::kState}) {
      for (const ValueId id : run().graph().Leaves(role)) {
        const ValueInfo& info = run().graph().value(id);
        if (info.name.starts_with("loss_scale")) continue;
        auto& bytes = kept[info.name];
        bytes.resize(static_cast<size_t>(info.type.bytes()));
        REQUIRE(run().ReadBytes(info.name, info.type.dtype, bytes).ok());
      }
    }
    return kept;
  }

 private:
  std::unique_ptr<Backend> cpu_;
  Session session_;
  int64_t steps_ = 0;
};

// A rule of the program's own with a state: it is not skipped by its arithmetic.
Optimizer Own() {
  return UpdateRule{
      .name = "own", .update = [](ParamUpdate& u) {
        const Value m = u.State("m");
        const Value moved = Add(MulScalar(m, 0.5), MulScalar(u.gradient, 0.5));
        u.Set(m, moved);
        u.Set(u.param, Sub(u.param, Mul(moved, u.LearningRate())));
      }};
}

std::vector<NamedOptimizer> Optimizers() {
  std::vector<NamedOptimizer> all = NamedOptimizers();
  all.push_back({"own", Own()});
  return all;
}

bool Updates(const Optimizer& optimizer, DType dtype) {
  if (dtype == DType::kF32) return true;
  const Result<Graph> step =
      BuildTrainStep(Net(dtype), "loss", {.optimizer = optimizer});
  return step.ok();
}

TEST_CASE("a scale that is a power of two changes no bit in f32") {
  for (const auto& each : Optimizers()) {
    const std::string_view name = each.name;
    const Optimizer& optimizer = each.optimizer;
    for (const auto& clip : {std::optional<double>(), std::optional(0.05)}) {
      CAPTURE(name);
      CAPTURE(clip.has_value());
      TrainOptions options = {.optimizer = optimizer,
                              .clip_norm = clip,
                              .groups = {{.pattern = "fc2.*", .lr_scale = 0.5}},
                              .gradients = {"fc1.*"}};
      const auto run = [&](const std::optional<LossScaling>& scaling) {
        options.loss_scaling = scaling;
        Trainer train(Step(Net(DType::kF32), options));
        for (int64_t i = 1; i <= 4; ++i) train.Take({.inputs = i});
        auto kept = train.Kept();
        const char* const outputs[] = {"loss", "grad:fc1.weight", "grad_norm"};
        for (const std::string output : outputs) {
          const auto id = train.run().graph().Find(output);
          CHECK(id.has_value() == (output != "grad_norm" || clip));
          if (!id) continue;
          const TensorType type = train.run().graph().value(*id).type;
          kept[output].resize(static_cast<size_t>(type.bytes()));
          REQUIRE(train.run().ReadBytes(output, type.dtype, kept[output]).ok());
        }
        return kept;
      };
      const auto plain = run({});
      CHECK(Differences(plain, run(LossScaling{})) == "");
      CHECK(Differences(plain, run(LossScaling{.growth_interval = 1})) == "");
      CHECK(Differences(plain, run(Fixed(1))) == "");
      CHECK(Differences(plain, run(Fixed(0x1p-10))) == "");
    }
  }
}

TEST_CASE("a skipped step changes nothing but the scale, and is not counted") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const auto& each : Optimizers()) {
      const std::string_view name = each.name;
      const Optimizer& optimizer = each.optimizer;
      if (!Updates(optimizer, dtype)) continue;
      for (const auto& clip : {std::optional<double>(), std::optional(0.05)}) {
        for (const bool is_dynamic : {false, true}) {
          CAPTURE(DTypeName(dtype));
          CAPTURE(name);
          CAPTURE(clip.has_value());
          CAPTURE(is_dynamic);
          const LossScaling scaling = {.init_scale = 1024,
                                       .is_dynamic = is_dynamic};
          const Graph step = Step(Net(dtype), {.optimizer = optimizer,
                                               .clip_norm = clip,
                                               .loss_scaling = scaling});
          Trainer train(step), without(step);
          train.Take({.inputs = 1});
          CHECK(train.Scalar("update_skipped") == 0);
          const auto before = train.Kept();
          train.Take({.inputs = 2, .is_bad = true});
          CHECK(train.Scalar("update_skipped") == 1);
          CHECK(Differences(before, train.Kept()) == "");
          CHECK(train.Count("loss_scale.skipped") == 1);
          if (is_dynamic) {
            CHECK(train.Scalar("new:loss_scale") == 512);
            CHECK(train.Count("loss_scale.good_steps") == 0);
          }
          for (const int64_t inputs : {3, 4}) train.Take({.inputs = inputs});
          CHECK(train.Scalar("update_skipped") == 0);
          CHECK(Differences(before, train.Kept()) != "");
          if (dtype != DType::kF32 && is_dynamic) continue;  // other roundings
          for (const int64_t inputs : {1, 3, 4}) {
            without.Take({.inputs = inputs});
          }
          CHECK(Differences(without.Kept(), train.Kept()) == "");
        }
      }
    }
  }
}

TEST_CASE("params that share a gradient are given theirs each") {
  GraphBuilder g("shared");
  const Value x = g.Input("x", DType::kF32, {kBatch, 6});
  const Value a = g.Param("a", DType::kF32, {kBatch, 6}, Init::Normal(1));
  const Value b = g.Param("b", DType::kF32, {kBatch, 6}, Init::Normal(1));
  const Value y = Cast(g.Input("y", DType::kI32, {kBatch}), DType::kF32);
  const Value sum = Add(Add(x, a), b);
  const Value loss = ReduceMean(Mul(Square(sum), Reshape(y, {kBatch, 1})));
  g.Output("loss", g.Name("loss", loss));
  const Result<Graph> net = g.Finish();
  REQUIRE_MESSAGE(net.ok(), net.error().message);
  TrainOptions options = {.optimizer = Sgd{}, .gradients = {"*"}};
  const auto gradients = [&](const std::optional<LossScaling>& scaling) {
    options.loss_scaling = scaling;
    Trainer train(Step(*net, options));
    train.Take({.inputs = 1});
    std::vector<float> both(2 * kBatch * 6);
    const std::span<float> all(both);
    REQUIRE(train.run().Read("grad:a", all.first(kBatch * 6)).ok());
    REQUIRE(train.run().Read("grad:b", all.last(kBatch * 6)).ok());
    return both;
  };
  CHECK(gradients(LossScaling{}) == gradients({}));
}

TEST_CASE(
    "micro-batches of a batch are scaled by their shares, and skip together") {
  const Graph whole = Net(DType::kF32);
  const Graph three = Net(DType::kF32, 1, 3), one = Net(DType::kF32, 1, 1);
  const Graph* const micro_batches[] = {&three, &one};
  const auto step = [&](const std::optional<LossScaling>& scaling) {
    const Result<MicroBatchedStep> made =
        BuildMicroBatchedStep(whole, micro_batches, "loss",
                              {.clip_norm = 0.1, .loss_scaling = scaling});
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    return made->graph;
  };
  Trainer plain(step({})), scaled(step(LossScaling{}));
  for (int64_t i = 1; i <= 3; ++i) {
    plain.Take({.inputs = i});
    scaled.Take({.inputs = i});
  }
  CHECK(Differences(plain.Kept(), scaled.Kept()) == "");
  for (const size_t example : {0, 3}) {
    scaled.Take({.inputs = 4, .is_bad = true, .example = example});
    CHECK(scaled.Scalar("update_skipped") == 1);
    CHECK(Differences(plain.Kept(), scaled.Kept()) == "");
  }
  CHECK(scaled.Scalar("new:loss_scale") == 16384);
}

// torch.amp.GradScaler's rule, as _amp_update_scale_ has it.
struct Reference {
  float scale;
  int growth_tracker = 0;

  void Update(bool found_inf, const LossScaling& scaling) {
    if (found_inf) {
      scale = static_cast<float>(scale * scaling.backoff_factor);
      growth_tracker = 0;
      return;
    }
    const int successful = growth_tracker + 1;
    if (successful != scaling.growth_interval) {
      growth_tracker = successful;
      return;
    }
    const auto new_scale = static_cast<float>(scale * scaling.growth_factor);
    if (std::isfinite(new_scale)) scale = new_scale;
    growth_tracker = 0;
  }
};

TEST_CASE("the scale moves as that of GradScaler") {
  std::mt19937 random(8);
  const LossScaling scalings[] = {
      {.growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 3},
      {.growth_factor = 1.5, .backoff_factor = 0.25, .growth_interval = 1},
      {.growth_factor = 4, .backoff_factor = 0.75, .growth_interval = 5}};
  for (const LossScaling& scaling : scalings) {
    CAPTURE(scaling.growth_interval);
    Trainer train(
        Step(Net(DType::kF32), {.optimizer = Sgd{}, .loss_scaling = scaling}));
    Reference reference = {65536};
    int64_t skipped = 0;
    for (int64_t i = 1; i <= 80; ++i) {
      CAPTURE(i);
      const bool is_bad = random() % 4 == 0;
      train.Take({.inputs = i, .is_bad = is_bad});
      reference.Update(is_bad, scaling);
      skipped += is_bad;
      CHECK(train.Scalar("new:loss_scale") == reference.scale);
      CHECK(train.Scalar("loss_scale") == reference.scale);
      CHECK(train.Count("loss_scale.good_steps") == reference.growth_tracker);
      CHECK(train.Count("loss_scale.skipped") == skipped);
    }
    CHECK(skipped > 10);
  }
}

TEST_CASE("a scale that comes to the end of f32 stays there") {
  // Of a loss that is 0, all gradients are.
  LossScaling scaling = {.init_scale = 0x1p126, .growth_interval = 1};
  Trainer up(Step(Net(DType::kF32, 0), {.loss_scaling = scaling}));
  Reference reference = {0x1p126f};
  for (int64_t i = 1; i <= 3; ++i) {
    up.Take({.inputs = i});
    reference.Update(
        false,
        {.growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 1});
    CHECK(up.Scalar("new:loss_scale") == reference.scale);
    CHECK(up.Scalar("update_skipped") == 0);
  }
  CHECK(reference.scale == 0x1p127f);
  // GradScaler's would become 0, and could not grow again.
  scaling = {.init_scale = 0x1p-125, .growth_interval = 1};
  Trainer down(Step(Net(DType::kF32), {.loss_scaling = scaling}));
  for (const float scale : {0x1p-126f, 0x1p-126f}) {
    down.Take({.inputs = 1, .is_bad = true});
    CHECK(down.Scalar("new:loss_scale") == scale);
  }
  down.Take({.inputs = 1});
  CHECK(down.Scalar("new:loss_scale") == 0x1p-125f);
}

TEST_CASE("gradients that would be zeros in f16 train with a scale") {
  // The gradient of a logit is below 1e-8 / 4, the least number of f16 6e-8.
  const Graph net = Net(DType::kF16, 1e-8);
  for (const bool scaled : {false, true}) {
    CAPTURE(scaled);
    TrainOptions options = {.optimizer = Sgd{}, .gradients = {"fc3.weight"}};
    if (scaled) options.loss_scaling = LossScaling{.growth_interval = 4};
    Trainer train(Step(net, options));
    const auto before = train.Kept();
    train.Take({.inputs = 1}, 5e7f);
    const float first = train.Scalar("loss");
    for (int64_t i = 2; i <= 100; ++i) train.Take({.inputs = 1}, 5e7f);
    CHECK((Differences(before, train.Kept()) == "") == !scaled);
    if (scaled) {
      CHECK(train.Scalar("loss") < 0.2f * first);
    } else {
      CHECK(train.Scalar("loss") == first);
    }
  }
}

TEST_CASE("f16 params of Adam's kind are rounded from f32, and so learn") {
  for (const Optimizer& optimizer :
       {Optimizer(AdamW{}), Optimizer(Adam{}), Optimizer(RmsProp{}),
        Optimizer(Adagrad{})}) {
    CAPTURE(OptimizerName(optimizer));
    const TrainOptions options = {.optimizer = optimizer,
                                  .loss_scaling = LossScaling{}};
    Trainer f32(Step(Net(DType::kF32), options));
    Trainer f16(Step(Net(DType::kF16), options));
    // Changes by 1e-5 are less than f16 has of most params.
    for (int64_t i = 1; i <= 200; ++i) {
      for (Trainer* const train : {&f32, &f16}) {
        train->Take({.inputs = 1}, 1e-5f);
      }
    }
    CHECK(f16.Scalar("loss") ==
          doctest::Approx(f32.Scalar("loss")).epsilon(1e-3));
    std::vector<float> rest(96 * 64);
    REQUIRE(f16.run().Read("fc2.weight.rest", &rest).ok());
    CHECK(std::ranges::any_of(rest, [](float x) { return x != 0; }));
  }
}

TEST_CASE("in f16 the scale comes down from one that is too large, by itself") {
  const LossScaling scaling = {.init_scale = 0x1p40};
  Trainer train(Step(Net(DType::kF16),
                     {.optimizer = Momentum{}, .loss_scaling = scaling}));
  const auto before = train.Kept();
  int64_t steps = 0;
  for (bool skipped = true; skipped && steps < 60; ++steps) {
    CHECK(Differences(before, train.Kept()) == "");
    train.Take({.inputs = 1});
    skipped = train.Scalar("update_skipped") != 0;
  }
  CHECK(steps > 15);
  CHECK(steps < 40);
  CHECK(train.Scalar("new:loss_scale") == std::ldexp(1.0f, 41 - int(steps)));
  CHECK(Differences(before, train.Kept()) != "");
}

TEST_CASE("steps that skip are planned like any, and read no dead bytes") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    for (const Optimizer& optimizer :
         {Optimizer(Momentum{}), Optimizer(Own())}) {
      const Graph step =
          Step(Net(dtype), {.optimizer = optimizer,
                            .clip_norm = 0.1,
                            .loss_scaling = LossScaling{.growth_interval = 2},
                            .gradients = {"*"}});
      testing::RunOptions options = {
          .steps = 6, .write_inputs = [](Runner& run, int64_t i) {
            WriteInputs(run, {.inputs = i, .is_bad = i % 4 == 2}, i, 0.01f);
          }};
      const Visible planned = RunSteps(step, *cpu, options);
      options.poison = true;
      CHECK(Differences(RunSteps(step, *cpu, options), planned) == "");
      options = {
          .steps = 6, .planned = false, .write_inputs = options.write_inputs};
      CHECK(Differences(RunSteps(step, *cpu, options), planned) == "");
    }
  }
}

TEST_CASE("the scale takes next to no memory") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const auto arena = [&](const TrainOptions& options) {
    return PlanMemory(Step(Net(DType::kF32), options), {.device = cpu->Needs()})
        ->arena_bytes();
  };
  const TrainOptions clipped = {.clip_norm = 1.0};
  const TrainOptions both = {.clip_norm = 1.0, .loss_scaling = LossScaling{}};
  CHECK(arena(both) <= arena(clipped) + 16 * kDefaultAlignment);
}

std::string ErrorOf(const LossScaling& scaling) {
  const Result<Graph> step =
      BuildTrainStep(Net(DType::kF32), "loss", {.loss_scaling = scaling});
  REQUIRE(!step.ok());
  CHECK(step.error().code == ErrorCode::kInvalidArgument);
  return step.error().message;
}

TEST_CASE("what cannot be scaled by is refused") {
  CHECK(ErrorOf({.init_scale = 0}) ==
        "[loss scale] init_scale is 0; expected a number from 2^-126 to "
        "2^126");
  CHECK(ErrorOf({.init_scale = -1}).find("is -1; expected") !=
        std::string::npos);
  CHECK(ErrorOf({.init_scale = std::nan("")}).find("is nan; expected") !=
        std::string::npos);
  CHECK(ErrorOf({.growth_factor = 1}) ==
        "[loss scale] growth_factor is 1; expected a finite number above 1");
  CHECK(ErrorOf({.backoff_factor = 1}) ==
        "[loss scale] backoff_factor is 1; expected a number between 0 and 1");
  CHECK(ErrorOf({.growth_interval = 0}) ==
        "[loss scale] growth_interval is 0; expected at least 1");
}

TEST_CASE("names that the scale needs are refused") {
  GraphBuilder g("net");
  const Value w = g.Param("w", DType::kF32, {2});
  const Value x = g.Input("loss_scale.skipped", DType::kF32, {2});
  g.Output("loss", g.Name("loss", ReduceSum(Mul(w, x))));
  const Result<Graph> net = g.Finish();
  REQUIRE(net.ok());
  CHECK(BuildTrainStep(*net, "loss", {}).ok());
  const Result<Graph> step =
      BuildTrainStep(*net, "loss", {.loss_scaling = LossScaling{}});
  REQUIRE(!step.ok());
  CHECK(step.error().message ==
        "[autodiff] graph \"net\" has a value \"loss_scale.skipped\"; the "
        "step needs this name for its loss scaling");
}

TEST_CASE("a rule that writes on its own cannot be skipped") {
  const UpdateRule rule = {.name = "raw", .update = [](ParamUpdate& u) {
                             u.Set(u.param, Sub(u.param, u.gradient));
                             Assign(u.State("m"), u.gradient);
                           }};
  CHECK(BuildTrainStep(Net(DType::kF32), "loss", {.optimizer = rule}).ok());
  const Result<Graph> step =
      BuildTrainStep(Net(DType::kF32), "loss",
                     {.optimizer = rule, .loss_scaling = LossScaling{}});
  REQUIRE(!step.ok());
  CHECK(step.error().code == ErrorCode::kUnsupported);
  CHECK(step.error().message.find(
            "update rule \"raw\" writes by assign for the param \"fc") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage
