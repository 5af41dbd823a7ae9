// Built-in models, trained by their steps in C and by the library.

#include "nn/models.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "compile/compile.h"
#include "planner/fit/fit.h"
#include "tests/compile/loss_difference.h"
#include "train/step_builder.h"
#include "train/train.h"

namespace stowage {
namespace {

struct Net {
  std::string name;
  ModelOptions options;
  // Of the arena that the step takes as it is, in percent; 0: the smallest budget.
  int part = 100;
  OffloadChoice offload = OffloadChoice::kAuto;
  int simd = 0;
};

FittedStep StepOf(const Net& net) {
  const ModelInfo info = *FindModel(net.name);
  const int64_t batch = net.options.batch.value_or(info.batch);
  const auto model = [&](int64_t n) {
    ModelOptions options = net.options;
    options.batch = n;
    return BuildModel(net.name, ModelPurpose::kTrain, options);
  };
  const TrainOptions training{
      .optimizer = *ParseOptimizer(info.training.optimizer), .clip_norm = 1.0};
  StepFitter fitter(
      BuildSteps(model, batch, "loss", training),
      {.plan = {.alignment = kCAlignment, .device = NeedsOfC(net.simd)},
       .optimizations = {.offload = net.offload}});
  Result<FittedStep> step = fitter.AsGiven();
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  if (net.part < 100) {
    step =
        fitter.Fit(net.part == 0 ? *fitter.SmallestBudget()
                                 : step->plan.arena_bytes() * net.part / 100);
    REQUIRE_MESSAGE(step.ok(), step.error().message);
  }
  return *std::move(step);
}

// The largest relative difference of losses over `steps`, from the same start.
double DifferenceOf(const Net& net, int steps) {
  const TrainingDefaults training = FindModel(net.name)->training;
  return testing::LossDifference(
      {.name = net.name,
       .step = StepOf(net),
       .simd = net.simd,
       .learning_rate =
           [&](int64_t i) { return training.schedule.At(i, training.steps); }},
      steps);
}

TEST_CASE("losses of 20 steps in C are those of the library") {
  CHECK(DifferenceOf({"mlp", {.batch = 8}}, 20) < 1e-6);
  CHECK(DifferenceOf({"cnn-small", {.batch = 4}}, 20) < 1e-6);
  CHECK(DifferenceOf({"lstm-char", {.batch = 2, .seq = 16}}, 20) < 1e-6);
  CHECK(DifferenceOf({"gpt-nano", {.batch = 2, .seq = 24}}, 20) < 1e-6);
  CHECK(DifferenceOf({"llama-nano", {.batch = 2, .seq = 24}}, 20) < 1e-6);
}

TEST_CASE("so are those in vectors of 16, 32 and 64 bytes") {
  const auto difference = [](const std::string& model,
                             const ModelOptions& options, int simd) {
    return DifferenceOf({.name = model, .options = options, .simd = simd}, 20);
  };
  for (const int simd : {16, 32, 64}) {
    CAPTURE(simd);
    CHECK(difference("mlp", {.batch = 8}, simd) < 1e-6);
    CHECK(difference("cnn-small", {.batch = 4}, simd) < 1e-6);
    CHECK(difference("lstm-char", {.batch = 2, .seq = 16}, simd) < 1e-6);
    CHECK(difference("gpt-nano", {.batch = 2, .seq = 24}, simd) < 1e-6);
    CHECK(difference("llama-nano", {.batch = 2, .seq = 24}, simd) < 1e-6);
  }
}

TEST_CASE("a step that was fitted into a budget gives the same losses in C") {
  CHECK(DifferenceOf({"cnn-small", {.batch = 8}, 70}, 5) < 1e-6);
  CHECK(DifferenceOf({"gpt-nano", {.batch = 4, .seq = 24}, 85}, 5) < 1e-6);
  // Where params lie in the second block, too.
  const Net slow{"mlp", {.batch = 8}, 0, OffloadChoice::kDisk};
  CHECK(StepOf(slow).plan.regions.weights == 0);
  CHECK(DifferenceOf(slow, 5) < 1e-6);
}

}  // namespace
}  // namespace stowage
