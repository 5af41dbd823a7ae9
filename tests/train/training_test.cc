#include "train/training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "data/text_data.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/layers.h"
#include "nn/models.h"
#include "planner/plan_memory.h"
#include "report/plan_json.h"
#include "tests/support/instances.h"
#include "train/device.h"

namespace stowage {
namespace {

using testing::TakesAllInstances;

ModelFn ModelOf(std::string_view name, ModelPurpose purpose) {
  return [=](int64_t batch) {
    return BuildModel(name, purpose, {.batch = batch});
  };
}

TrainingSpec Mlp(int64_t batch) {
  return {.model = ModelOf("mlp", ModelPurpose::kTrain), .batch = batch};
}

ProgramSpec MlpEvaluation(int64_t batch) {
  return {.name = "evaluate",
          .model = ModelOf("mlp", ModelPurpose::kEvaluate),
          .batch = batch};
}

TrainingSpec Nano() {
  return {.model = ModelOf("gpt-nano", ModelPurpose::kTrain), .batch = 8};
}

// The losses of `steps` steps of a gpt-nano, by a rate of 1e-3, and where it is wanted
// that of evaluating the same text behind each.
std::vector<float> NanoLosses(Training& training, int64_t steps,
                              std::vector<float>* evaluated = nullptr) {
  std::vector<int32_t> text;
  for (int64_t i = 0; i < 5000; ++i) {
    text.push_back(static_cast<int32_t>(i * i % 89 + i % 7));
  }
  training.Initialize(/*seed=*/3);
  std::vector<int32_t> tokens(8 * 64), targets(8 * 64);
  std::vector<float> losses;
  for (int64_t step = 1; step <= steps; ++step) {
    SampleTextBatch(text, 8, 64, /*seed=*/3, static_cast<uint64_t>(step),
                    tokens, targets);
    Runner& run = training.step();
    REQUIRE(run.Write("tokens", tokens).ok());
    REQUIRE(run.Write("targets", targets).ok());
    REQUIRE(run.Write("lr", 1e-3f).ok());
    REQUIRE(run.Write("step", step).ok());
    REQUIRE(run.Step() == StepCode::kOk);
    losses.push_back(*run.ReadScalar("loss"));
    // Another program in between takes what the step's inputs lay in.
    if (Runner* const evaluate = training.Find("evaluate")) {
      REQUIRE(evaluate->Write("tokens", tokens).ok());
      REQUIRE(evaluate->Write("targets", targets).ok());
      REQUIRE(evaluate->Step() == StepCode::kOk);
      const float loss = *evaluate->ReadScalar("loss");
      CHECK(std::isfinite(loss));
      if (evaluated != nullptr) evaluated->push_back(loss);
    }
  }
  return losses;
}

// The loss after so many steps of an mlp with a batch of 32.
float MlpLoss(Training& training, int64_t steps) {
  std::vector<float> x(32 * 64);
  std::vector<int32_t> y(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 16;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 10);
  Runner& run = training.step();
  for (int64_t step = 1; step <= steps; ++step) {
    REQUIRE(run.Write("x", x).ok());
    REQUIRE(run.Write("y", y).ok());
    REQUIRE(run.Write("lr", 1e-2f).ok());
    REQUIRE(run.Write("step", step).ok());
    REQUIRE(run.Step() == StepCode::kOk);
  }
  return *run.ReadScalar("loss");
}

std::vector<float> ReadParam(Training& training, std::string_view name) {
  const Graph& graph = training.step().graph();
  std::vector<float> content(static_cast<size_t>(
      graph.value(*graph.Find(name)).type.shape.num_elements()));
  REQUIRE(training.step().Read(name, &content).ok());
  return content;
}

TEST_CASE(
    "gpt-nano trains in 35 % of its arena, evaluation in the same bytes, "
    "and no loss changes by a bit") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = Nano();
  Result<Training> whole = Train(spec, *cpu);
  REQUIRE_MESSAGE(whole.ok(), whole.error().message);
  CHECK(whole->plan().step.price.host.values == 0);
  CHECK(whole->plan().step.price.recomputed_nodes == 0);
  const Bytes arena = whole->session().arena_bytes();

  spec.budget = arena * 35 / 100;
  spec.optimizations = MemoryOptimizations{};
  spec.programs = {{.name = "evaluate",
                    .model = ModelOf("gpt-nano", ModelPurpose::kEvaluate),
                    .batch = 8}};
  Result<Training> tight = Train(spec, *cpu);
  REQUIRE_MESSAGE(tight.ok(), tight.error().message);
  CHECK(tight->session().arena_bytes() <= *spec.budget);
  CHECK(tight->session().arena_bytes() == tight->plan().arena_bytes());
  CHECK(tight->session().host_bytes() == tight->plan().host_bytes());
  REQUIRE(tight->plan().programs.size() == 1);
  CHECK(tight->plan().programs[0].batch == 8);
  CHECK(tight->plan().step.price.micro_batches == 1);
  // Weights and two moments alone are more than 35 %.
  CHECK(tight->plan().step.price.host.values > 0);
  const int64_t steps = TakesAllInstances() ? 20 : 3;
  CHECK(NanoLosses(*tight, steps) == NanoLosses(*whole, steps));
}

TEST_CASE("evaluation runs fused, and its loss has the bits of its ops apart") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  TrainingSpec spec = Nano();
  const ModelFn evaluation = ModelOf("gpt-nano", ModelPurpose::kEvaluate);
  spec.programs = {{.name = "evaluate", .model = evaluation, .batch = 8}};
  auto planner = TrainingPlanner::Make(spec, cpu->Needs());
  REQUIRE_MESSAGE(planner.ok(), planner.error().message);
  const auto fused = planner->Plan();
  REQUIRE_MESSAGE(fused.ok(), fused.error().message);
  TrainingPlan apart = *fused;
  PlannedProgram& program = apart.programs[0];
  program.graph = *evaluation(8);
  const auto plan = PlanMemory(
      program.graph,
      {.weights = WeightLayout::FromForward(apart.step.graph, apart.step.plan),
       .device = cpu->Needs()});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  program.plan = *plan;
  const PlannedProgram& together = fused->programs[0];
  CHECK(together.plan.arena_bytes() <= program.plan.arena_bytes());
  // Of each of four layers four biases and two residuals are in their products.
  CHECK(together.graph.num_nodes() <= program.graph.num_nodes() - 4 * 6);
  std::vector<float> losses[2];
  for (const bool is_fused : {false, true}) {
    auto training = Training::Open(is_fused ? *fused : apart, *cpu);
    REQUIRE_MESSAGE(training.ok(), training.error().message);
    NanoLosses(*training, 3, &losses[is_fused]);
  }
  CHECK(losses[0].size() == 3);
  // What knows nothing of 96 characters has the logarithm of that.
  CHECK(losses[0][2] < std::log(96.0f));
  CHECK(losses[1] == losses[0]);
}

TEST_CASE("in micro-batches, gpt-nano's losses are the same but for rounding") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = Nano();
  Result<Training> whole = Train(spec, *cpu);
  REQUIRE_MESSAGE(whole.ok(), whole.error().message);
  spec.optimizations = NoOptimizations();
  spec.optimizations->micro_batches = MicroBatchesToTry(8);
  spec.budget = whole->session().arena_bytes() * 6 / 10;
  Result<Training> micro_batches = Train(spec, *cpu);
  REQUIRE_MESSAGE(micro_batches.ok(), micro_batches.error().message);
  CHECK(micro_batches->plan().step.price.micro_batches > 1);
  CHECK(micro_batches->session().arena_bytes() <= *spec.budget);
  const int64_t steps = TakesAllInstances() ? 10 : 3;
  const std::vector<float> expected = NanoLosses(*whole, steps);
  const std::vector<float> losses = NanoLosses(*micro_batches, steps);
  CHECK(expected.back() < expected.front());
  for (size_t i = 0; i < losses.size(); ++i) {
    INFO("step ", i + 1);
    CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  }
}

TEST_CASE(
    "a program beside the step takes as many examples as the budget holds") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = Mlp(32);
  const Bytes step = Train(spec, *cpu)->session().arena_bytes();
  spec.programs = {MlpEvaluation(1 << 14)};
  // Without a budget: as many as fit into what the step takes.
  for (const bool has_budget : {true, false}) {
    CAPTURE(has_budget);
    const Bytes room = has_budget ? step + step / 2 : step;
    spec.budget.reset();
    if (has_budget) spec.budget = room;
    Result<Training> training = Train(spec, *cpu);
    REQUIRE_MESSAGE(training.ok(), training.error().message);
    const PlannedProgram& evaluate = training->plan().programs[0];
    CHECK(evaluate.name == "evaluate");
    CHECK(evaluate.batch > 1);
    CHECK(evaluate.batch < 1 << 14);
    CHECK(evaluate.plan.arena_bytes() <= room);
    CHECK(training->session().arena_bytes() <= room);
    // Twice as many do not fit, with the weights where they are.
    const FittedStep& fitted = training->plan().step;
    const Result<Plan> twice = PlanMemory(
        *spec.programs[0].model(2 * evaluate.batch),
        {.budget = room,
         .weights = WeightLayout::FromForward(fitted.graph, fitted.plan),
         .device = cpu->Needs()});
    REQUIRE(!twice.ok());
    CHECK(twice.error().code == ErrorCode::kBudgetTooSmall);
  }
}

// Of the mlp's params, with a megabyte for each example beside them.
Result<Graph> Wide(int64_t batch) {
  GraphBuilder g("wide");
  Value x = g.Input("x", DType::kF32, {batch, 1 << 18});
  g.Output("y", Exp(x));
  return g.Finish();
}

TEST_CASE(
    "a program that fits at no batch is refused by name, and has what it "
    "needs where there is no budget") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = Mlp(32);
  const Bytes step = Train(spec, *cpu)->session().arena_bytes();
  spec.programs = {{.name = "wide", .model = Wide, .batch = 4}};
  Result<Training> free = Train(spec, *cpu);
  REQUIRE_MESSAGE(free.ok(), free.error().message);
  CHECK(free->plan().programs[0].batch == 1);
  const std::string explained = free->plan().Explain();
  CAPTURE(explained);
  CHECK(explained.starts_with("pass "));
  CHECK(explained.find("wide: ") != std::string::npos);
  CHECK(explained.find("1 examples at a time, of the 4 asked for") !=
        std::string::npos);
  CHECK(explained.find(StrCat("arena: ", free->session().arena_bytes())) !=
        std::string::npos);
  const Bytes need = free->session().arena_bytes();
  CHECK(need > step);
  CHECK(need == free->plan().programs[0].plan.arena_bytes());

  spec.budget = need;
  CHECK(Train(spec, *cpu).ok());
  spec.budget = need - 1;
  const Result<Training> refused = Train(spec, *cpu);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
  INFO(refused.error().message);
  CHECK(refused.error().message.ends_with(
      "; this is program \"wide\", at 1 example of 4 at a time"));
}

TEST_CASE("a plan goes without an optional program that does not fit") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = Mlp(32);
  const Bytes step = Train(spec, *cpu)->session().arena_bytes();
  ErrorCode code = ErrorCode::kUnsupported;
  spec.programs = {{.name = "wide", .model = Wide, .is_optional = true},
                   {.name = "none",
                    .model = [&](int64_t) -> Result<Graph> {
                      return Error{code, "no such model"};
                    },
                    .is_optional = true},
                   MlpEvaluation(32)};
  spec.programs.back().is_optional = true;
  for (const bool has_budget : {false, true}) {
    if (has_budget) spec.budget = step;
    const Training training = Train(spec, *cpu).OrDie();
    REQUIRE(training.plan().programs.size() == 1);
    CHECK(training.plan().programs[0].name == "evaluate");
    CHECK(training.plan().arena_bytes() == step);
  }
  code = ErrorCode::kInvalidArgument;
  const Result<Training> refused = Train(spec, *cpu);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message == "no such model");
}

TEST_CASE("groups of params reach the step") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = Mlp(32);
  Result<Training> all = Train(spec, *cpu);
  REQUIRE_MESSAGE(all.ok(), all.error().message);
  spec.training.groups = {{.pattern = "fc1.*", .frozen = true}};
  Result<Training> frozen = Train(spec, *cpu);
  REQUIRE_MESSAGE(frozen.ok(), frozen.error().message);
  // No moments are kept for what is not trained.
  CHECK(frozen->session().arena_bytes() < all->session().arena_bytes());
  for (Training* training : {&*all, &*frozen}) {
    training->Initialize(/*seed=*/1);
    const bool is_frozen = training == &*frozen;
    CAPTURE(is_frozen);
    const std::vector<float> first = ReadParam(*training, "fc1.weight");
    const std::vector<float> second = ReadParam(*training, "fc2.weight");
    MlpLoss(*training, 3);
    CHECK((ReadParam(*training, "fc1.weight") == first) == is_frozen);
    CHECK(ReadParam(*training, "fc2.weight") != second);
  }
}

TEST_CASE("mistakes are named before anything is planned") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const auto refused = [&](TrainingSpec spec) {
    const Result<Training> training = Train(std::move(spec), *cpu);
    REQUIRE(!training.ok());
    CHECK(training.error().code == ErrorCode::kInvalidArgument);
    return training.error().message;
  };
  CHECK(refused({}) == "[train] there is no model; give a function");
  CHECK(refused(Mlp(0)) == "[train] batch 0 is below 1");
  TrainingSpec spec = Mlp(4);
  spec.programs = {{.name = "evaluate", .model = {}}};
  CHECK(refused(spec) ==
        "[train] program \"evaluate\" has no model; give a function");
  spec.programs = {MlpEvaluation(-2)};
  CHECK(refused(spec) == "[train] program \"evaluate\": batch -2 is below 1");
  spec.programs.clear();
  const auto micro_batches = [&](std::vector<int64_t> numbers) {
    spec.optimizations =
        MemoryOptimizations{.micro_batches = std::move(numbers)};
    return refused(spec);
  };
  CHECK(micro_batches({1, 5}) ==
        "[micro-batches] 5 micro-batches of a batch of 4; expected at most 4");
  CHECK(micro_batches({0, 1}) ==
        "[micro-batches] 0 micro-batches of a batch of 4; expected at least 1");
  CHECK(micro_batches({2, 1}) ==
        "[micro-batches] 1 micro-batches follow 2; expected rising numbers");
  CHECK(micro_batches({}) ==
        "[micro-batches] no number of micro-batches is given; give 1");
}

TEST_CASE("a budget that cannot be met is refused with the smallest that can") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = Mlp(32);
  spec.optimizations = MemoryOptimizations{};
  spec.budget = 1000;
  auto planner = TrainingPlanner::Make(spec, cpu->Needs());
  REQUIRE(planner.ok());
  const Bytes smallest = *planner->step().SmallestBudget();
  const Result<Training> refused = Train(spec, *cpu);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
  INFO(refused.error().message);
  CHECK(refused.error().message.starts_with("[plan] budget 1000 B is below "));
  CHECK(refused.error().message.find(StrCat(" (", smallest, " bytes)")) !=
        std::string::npos);
  spec.budget = smallest - 1;
  CHECK(!Train(spec, *cpu).ok());
  spec.budget = smallest;
  const Result<Training> least = Train(spec, *cpu);
  REQUIRE_MESSAGE(least.ok(), least.error().message);
  CHECK(least->plan().arena_bytes() <= smallest);
}

TEST_CASE("a plan that a cache holds is found again, and is the same plan") {
  const char* const temporary = std::getenv("TEST_TMPDIR");
  const std::string folder =
      StrCat(temporary != nullptr ? temporary : "/tmp", "/training_test_plans");
  std::filesystem::remove_all(folder);
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = Mlp(32);
  CHECK(Train(spec, *cpu)->plan().cache == CacheUse::kOff);
  spec.budget = Train(spec, *cpu)->session().arena_bytes() * 3 / 4;
  spec.cache = PlanCache(folder);
  Result<Training> first = Train(spec, *cpu);
  REQUIRE_MESSAGE(first.ok(), first.error().message);
  CHECK(first->plan().cache == CacheUse::kMiss);
  spec.cache = PlanCache(folder);  // what another process would find
  Result<Training> second = Train(spec, *cpu);
  REQUIRE_MESSAGE(second.ok(), second.error().message);
  CHECK(second->plan().cache == CacheUse::kHit);
  CHECK(second->plan().cache_note == "");
  CHECK(second->session().arena_bytes() == first->session().arena_bytes());
  const FittedStep& a = first->plan().step;
  const FittedStep& b = second->plan().step;
  CHECK(PlanToJson(a.plan, a.graph) == PlanToJson(b.plan, b.graph));
  first->Initialize(/*seed=*/1);
  second->Initialize(/*seed=*/1);
  CHECK(MlpLoss(*first, 5) == MlpLoss(*second, 5));
  // Another question is not answered with it.
  spec.training.optimizer = Sgd{};
  CHECK(Train(spec, *cpu)->plan().cache == CacheUse::kMiss);
}

TEST_CASE(
    "a training may be moved, its device with it, and another put in its "
    "place") {
  const DeviceFlags flags{.name = "cpu", .threads = 2};
  Result<Training> made = Train(Mlp(32), flags);
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  Training training = *std::move(made);
  training.Initialize(/*seed=*/1);
  const float once = MlpLoss(training, 3);
  // What was there ends, session before device, and the new one is whole.
  for (int i = 0; i < 3; ++i) {
    Result<Training> next = Train(Mlp(32), flags);
    REQUIRE(next.ok());
    training = *std::move(next);
    training.Initialize(/*seed=*/1);
    CHECK(MlpLoss(training, 3) == once);
  }
  auto moved = std::make_unique<Training>(std::move(training));
  CHECK(moved->backend().name() == "cpu");
  moved->Initialize(/*seed=*/1);
  CHECK(MlpLoss(*moved, 3) == once);
}

// --- Batch statistics ---

TrainingSpec CnnSmall() {
  const auto of = [](ModelPurpose purpose) {
    return [purpose](int64_t batch) {
      return BuildModel("cnn-small", purpose,
                        {.batch = batch, .images = ImageShape{1, 8, 8, 3}});
    };
  };
  return {.model = of(ModelPurpose::kTrain),
          .batch = 6,
          .programs = {{.name = "evaluate",
                        .model = of(ModelPurpose::kEvaluate),
                        .batch = 6}}};
}

// The losses of some steps, and then that of evaluating the same images.
std::vector<float> CnnLosses(Training& training) {
  std::vector<float> x(6 * 64);
  std::vector<int32_t> y(6);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i * i % 37));
  }
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 3);
  training.Initialize(2);
  std::vector<float> losses;
  const auto run = [&](Runner& runner) {
    REQUIRE(runner.Write("x", x).ok());
    REQUIRE(runner.Write("y", y).ok());
    REQUIRE(runner.Step() == StepCode::kOk);
    losses.push_back(*runner.ReadScalar("loss"));
  };
  for (int64_t i = 1; i <= 60; ++i) {
    REQUIRE(training.step().Write("lr", 1e-3f).ok());
    REQUIRE(training.step().Write("step", i).ok());
    run(training.step());
  }
  run(*training.Find("evaluate"));
  return losses;
}

TEST_CASE("evaluation reads the running statistics that training wrote") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  Result<Training> training = Train(CnnSmall(), *cpu);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  const std::vector<float> losses = CnnLosses(*training);
  CHECK(losses[59] < 0.1f * losses[0]);
  // By the statistics of its start, a mean of 0 and a variance of 1, it would not.
  CHECK(losses[60] < 0.3f * losses[0]);
  const std::vector<float> mean = ReadParam(*training, "bn1_1.running_mean");
  CHECK(*std::max_element(mean.begin(), mean.end()) > 0);
}

TEST_CASE("evaluation reloads what the step keeps in the host's memory") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = CnnSmall();
  Result<Training> whole = Train(spec, *cpu);
  REQUIRE_MESSAGE(whole.ok(), whole.error().message);
  spec.optimizations = NoOptimizations();
  spec.optimizations->offload = OffloadChoice::kAuto;
  spec.budget =
      *TrainingPlanner::Make(spec, cpu->Needs())->step().SmallestBudget();
  Result<Training> small = Train(spec, *cpu);
  REQUIRE_MESSAGE(small.ok(), small.error().message);
  const Graph& step = small->plan().step.graph;
  REQUIRE(step.value(*step.Find("bn1_1.running_mean")).on_host);
  REQUIRE(small->plan().programs[0].batch == 6);
  CHECK(CnnLosses(*small) == CnnLosses(*whole));
}

TEST_CASE("a batch that a model normalizes by is taken whole, unless allowed") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = CnnSmall();
  const Bytes whole = Train(spec, *cpu)->plan().arena_bytes();
  // Every optimization but micro-batches may be used to fit.
  spec.budget = whole * 9 / 10;
  Result<Training> fits = Train(spec, *cpu);
  REQUIRE_MESSAGE(fits.ok(), fits.error().message);
  CHECK(fits->plan().step.price.micro_batches == 1);

  spec.budget.reset();
  spec.optimizations = NoOptimizations();
  spec.optimizations->micro_batches = {3};
  const Result<Training> refused = Train(spec, *cpu);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kUnsupported);
  CHECK(refused.error().message.find(
            "they would change the loss, \"loss\" (\"bn1_1\": batch_norm "
            "normalizes by all examples of the batch)") != std::string::npos);
  // Nor is it where nothing else is left.
  spec.optimizations->micro_batches = {1, 3};
  spec.budget = 1000;
  const Result<Training> small = Train(spec, *cpu);
  REQUIRE_FALSE(small.ok());
  CHECK(small.error().code == ErrorCode::kBudgetTooSmall);
  CHECK(small.error().message.find("the batch in one micro-batch, since") !=
        std::string::npos);
  spec.budget.reset();

  spec.training.allow_batch_change = true;
  spec.optimizations->micro_batches = {3};
  Result<Training> micro_batches = Train(spec, *cpu);
  REQUIRE_MESSAGE(micro_batches.ok(), micro_batches.error().message);
  CHECK(micro_batches->plan().step.price.micro_batches == 3);
  CHECK(CnnLosses(*micro_batches)[59] < 1);
}

TEST_CASE("a group norm, which knows no batch, is taken in micro-batches") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec;
  spec.batch = 4;
  spec.model = [](int64_t batch) {
    GraphBuilder g("groups");
    const Value x = g.Input("x", DType::kF32, {batch, 6, 5});
    const Value y = GroupNorm(Linear(x, "fc", 3), "gn", 2);
    g.Output("loss", ReduceMean(Square(InstanceNorm(y, "in"))));
    return g.Finish();
  };
  spec.optimizations = NoOptimizations();
  spec.optimizations->micro_batches = {2};
  const Result<Training> micro_batches = Train(spec, *cpu);
  REQUIRE_MESSAGE(micro_batches.ok(), micro_batches.error().message);
  CHECK(micro_batches->plan().step.price.micro_batches == 2);
}

}  // namespace
}  // namespace stowage
