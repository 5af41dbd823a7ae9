// Steps of several shapes over one arena: of eight lengths, and of the short batch that
// an epoch ends with.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "nn/models.h"
#include "runtime/session.h"
#include "tools/heap_counter.h"
#include "train/training.h"

namespace stowage {
namespace {

constexpr int64_t kBatch = 4;

struct Shape {
  int64_t seq = 0;
  int64_t batch = kBatch;
  std::string name() const { return StrCat(batch, " of ", seq); }
};

ModelFn Nano(int64_t seq) {
  return [seq](int64_t batch) {
    return BuildModel("gpt-nano", ModelPurpose::kTrain,
                      {.batch = batch, .seq = seq});
  };
}

// A training of the first shape, with the others beside it.
Training Open(Backend& cpu, const std::vector<Shape>& shapes,
              std::optional<Bytes> budget = {}) {
  TrainingSpec spec = {.model = Nano(shapes.front().seq),
                       .batch = shapes.front().batch,
                       .training = {.optimizer = AdamW{}},
                       .budget = budget};
  for (size_t i = 1; i < shapes.size(); ++i) {
    spec.shapes.push_back({.name = shapes[i].name(),
                           .model = Nano(shapes[i].seq),
                           .batch = shapes[i].batch});
  }
  Result<Training> training = Train(std::move(spec), cpu);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  return *std::move(training);
}

// The tokens and targets of a step of one shape.
struct Examples {
  std::vector<int32_t> tokens, targets;

  Examples(const Shape& shape, int64_t number) {
    const auto count = static_cast<size_t>(shape.batch * shape.seq);
    for (size_t k = 0; k < count; ++k) {
      tokens.push_back(
          static_cast<int32_t>((k * k + static_cast<size_t>(number)) % 61));
      targets.push_back(static_cast<int32_t>((k * 7 + 3) % 61));
    }
  }
};

// A step on these; allocates nothing.
StepCode Take(Runner& step, const Examples& examples, int64_t number) {
  if (!step.Write("tokens", examples.tokens).ok() ||
      !step.Write("targets", examples.targets).ok() ||
      !step.Write("lr", 1e-2f).ok() || !step.Write("step", number).ok()) {
    return StepCode::kInputsMissing;
  }
  return step.Step();
}

// The losses of three steps of one shape, from the params of a seed on.
std::vector<float> Losses(Training& training, Runner& step,
                          const Shape& shape) {
  training.Initialize(/*seed=*/5);
  std::vector<float> losses;
  for (int64_t i = 1; i <= 3; ++i) {
    REQUIRE(Take(step, Examples(shape, i), i) == StepCode::kOk);
    losses.push_back(*step.ReadScalar("loss"));
  }
  return losses;
}

const std::vector<Shape> kLengths = {{128}, {112}, {96}, {80},
                                     {64},  {48},  {32}, {16}};

TEST_CASE("eight lengths take the arena of the longest, and the bits of each") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  Training all = Open(*cpu, kLengths);
  REQUIRE(all.plan().shapes.size() == 7);
  Bytes largest = all.plan().step.plan.arena_bytes();
  for (const PlannedShape& shape : all.plan().shapes) {
    largest = std::max(largest, shape.step.plan.arena_bytes());
  }
  CHECK(all.session().arena_bytes() == largest);
  for (const Shape& shape : kLengths) {
    INFO(shape.name());
    Training alone = Open(*cpu, {shape});
    CHECK(alone.session().arena_bytes() <= largest);
    Runner* const step =
        shape.seq == 128 ? &all.step() : all.Find(shape.name());
    REQUIRE(step != nullptr);
    const std::vector<float> losses = Losses(all, *step, shape);
    CHECK(losses == Losses(alone, alone.step(), shape));
    CHECK(losses[2] < losses[0]);
  }
  // The longest alone needs as much as all of them.
  CHECK(Open(*cpu, {kLengths.front()}).session().arena_bytes() == largest);
}

TEST_CASE("within a budget, too, and a change of shape allocates nothing") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const Bytes needed = Open(*cpu, {kLengths.front()}).session().arena_bytes();
  const Bytes budget = needed * 7 / 10;
  Training all = Open(*cpu, kLengths, budget);
  CHECK(all.session().arena_bytes() <= budget);
  Training alone = Open(*cpu, {kLengths[1]}, budget);
  const std::vector<float> losses =
      Losses(all, *all.Find(kLengths[1].name()), kLengths[1]);
  if (all.plan().shapes[0].step.price.micro_batches ==
      alone.plan().step.price.micro_batches) {
    CHECK(losses == Losses(alone, alone.step(), kLengths[1]));
  }
  std::vector<Runner*> steps;
  std::vector<Examples> examples;
  for (const Shape& shape : kLengths) {
    steps.push_back(shape.seq == 128 ? &all.step() : all.Find(shape.name()));
    examples.emplace_back(shape, 1);
    // Each runs once before: what it is made of is there.
    REQUIRE(Take(*steps.back(), examples.back(), 1) == StepCode::kOk);
  }
  const std::optional<int64_t> before = tools::HeapAllocations();
  if (!before) return;
  bool all_ok = true;
  for (int64_t round = 2; round <= 3; ++round) {
    for (size_t i = 0; i < steps.size(); ++i) {
      all_ok &= Take(*steps[i], examples[i], round) == StepCode::kOk;
    }
  }
  CHECK(all_ok);
  CHECK(*tools::HeapAllocations() == *before);
}

// Nothing runs again, which is quick to plan.
TEST_CASE("in every budget all shapes keep the same states on the host") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const ModelFn mlp = [](int64_t batch) {
    return BuildModel("mlp", ModelPurpose::kTrain, {.batch = batch});
  };
  int in_part = 0;
  for (const std::vector<int64_t>& micro_batches :
       {std::vector<int64_t>{1}, {2}, {1, 2, 4}}) {
    CAPTURE(micro_batches.size());
    TrainingSpec spec = {
        .model = mlp,
        .shapes = {{.name = "half", .model = mlp, .batch = 256},
                   {.name = "one", .model = mlp, .batch = 1}},
        .batch = 512,
        .training = {.optimizer = AdamW{}},
        .optimizations = MemoryOptimizations{.micro_batches = micro_batches,
                                             .recompute = Recompute::kNone}};
    const Bytes least =
        *TrainingPlanner::Make(spec, cpu->Needs())->step().SmallestBudget();
    for (Bytes budget = least; budget < least * 3 / 2; budget += least / 14) {
      CAPTURE(budget);
      spec.budget = budget;
      const Result<Training> training = Train(spec, *cpu);
      if (!training.ok()) FAIL(training.error().message);
      const RegionBytes& of_step = training->plan().step.plan.regions;
      for (const PlannedShape& shape : training->plan().shapes) {
        CHECK(shape.step.plan.regions.host_state == of_step.host_state);
      }
      in_part += of_step.host_state > 0 && of_step.state > 0;
    }
  }
  CHECK(in_part > 0);
}

TEST_CASE("the short batch that an epoch ends with is a shape") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const Shape whole{32, 6};
  const Shape last{32, 1};
  Training training = Open(*cpu, {whole, last});
  CHECK(training.session().arena_bytes() ==
        training.plan().step.plan.arena_bytes());
  Training alone = Open(*cpu, {last});
  CHECK(Losses(training, *training.Find(last.name()), last) ==
        Losses(alone, alone.step(), last));
  Training all = Open(*cpu, {whole});
  CHECK(Losses(training, training.step(), whole) ==
        Losses(all, all.step(), whole));
}

TEST_CASE("a shape in micro-batches has no more of them than examples") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  TrainingSpec spec = {.model = Nano(16), .batch = 8};
  spec.optimizations = NoOptimizations();
  spec.optimizations->micro_batches = {4};
  spec.shapes = {{.name = "two", .model = Nano(16), .batch = 2},
                 {.name = "five", .model = Nano(16), .batch = 5}};
  const Result<Training> training = Train(std::move(spec), *cpu);
  REQUIRE_MESSAGE(training.ok(), training.error().message);
  CHECK(training->plan().step.price.micro_batches == 4);
  CHECK(training->plan().shapes[0].step.price.micro_batches == 2);
  CHECK(training->plan().shapes[1].step.price.micro_batches == 4);
}

TEST_CASE("a shape that does not fit is told beside what the step reserves") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  TrainingSpec spec = {.model = Nano(16),
                       .batch = 2,
                       .training = {.optimizer = AdamW{}},
                       .optimizations = NoOptimizations()};
  const RegionBytes first = Train(spec, *cpu)->plan().step.plan.regions;
  REQUIRE(first.state > 0);
  spec.shapes = {{.name = "longer", .model = Nano(32)}};
  const Result<Training> refused = Train(spec, *cpu);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
  CHECK(refused.error().message.ends_with(StrCat(
      "; this is shape \"longer\", beside ", first.weights,
      " bytes of weights, ", first.state,
      " of state and 0 of state on the host, as the first step has them")));
}

TEST_CASE("a shape of no example is refused by its name") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const Result<Training> training =
      Train({.model = Nano(16),
             .shapes = {{.name = "none", .model = Nano(16), .batch = 0}},
             .batch = 2},
            *cpu);
  REQUIRE(!training.ok());
  CHECK(training.error().code == ErrorCode::kInvalidArgument);
  CHECK(training.error().message.find("\"none\": batch 0 is below 1") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage
