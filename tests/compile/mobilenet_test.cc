// The last block of a MobileNetV2 at 96 x 96 trains within 1 MB of RAM, with the layers before it
// in read-only data.

#include "tests/onnx/mobilenet.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "compile/compile.h"
#include "onnx/onnx.h"
#include "planner/fit/fit.h"
#include "tests/compile/loss_difference.h"
#include "tests/support/random_graph.h"
#include "train/step_builder.h"

namespace stowage {
namespace {

using testing::ComparedStep;

constexpr Bytes kBudget = 1'000'000;

// The step of a batch of 1 that trains params matching `patterns`; an image and its label.
ComparedStep FineTuning(const std::vector<std::string>& patterns) {
  const Result<OnnxModel> onnx = ParseOnnx(
      testing::MobileNetV2({.width = 0.35, .side = 96}), "mobilenet.onnx");
  REQUIRE_MESSAGE(onnx.ok(), onnx.error().message);
  OnnxBuildOptions options;
  options.loss.emplace();
  const auto model = [&](int64_t) { return onnx->Build(options); };
  const Result<Graph> forward = model(1);
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  ComparedStep net{.name = "mobilenet",
                   .learning_rate = [](int64_t) { return 3e-5; }};
  std::set<std::string> params;
  REQUIRE(onnx->ForEachWeight(*forward,
                              [&](const NamedArray& weight) -> Status {
                                const auto data = weight.array.data();
                                net.contents[weight.name].assign(
                                    reinterpret_cast<const char*>(data.data()),
                                    data.size());
                                params.insert(weight.name);
                                return {};
                              })
              .ok());
  std::vector<ParamGroup> groups;
  for (const std::string& pattern : patterns) {
    groups.push_back({.pattern = pattern});
  }
  groups.push_back({.pattern = "*", .frozen = true});
  const StepBuilder build =
      BuildSteps(model, 1, "loss", {.optimizer = Sgd{}, .groups = groups});
  const Result<SampledStep> whole = build(1, Sampling::kAll);
  REQUIRE_MESSAGE(whole.ok(), whole.error().message);
  StepFitter fitter(build,
                    {.plan = {.alignment = kCAlignment,
                              .device = NeedsOfC(),
                              .outside = FrozenParams(whole->graph, params)}});
  Result<FittedStep> step = fitter.Fit(kBudget);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  net.step = *std::move(step);

  testing::Rng rng(7);
  std::vector<std::byte>& image = net.inputs["x"];
  for (int i = 0; i < 3 * 96 * 96; ++i) {
    const auto pixel = static_cast<float>(rng.Uniform(-1, 1));
    const auto bytes = std::as_bytes(std::span(&pixel, 1));
    image.insert(image.end(), bytes.begin(), bytes.end());
  }
  const int64_t label = 3;
  const auto bytes = std::as_bytes(std::span(&label, 1));
  net.inputs["labels"].assign(bytes.begin(), bytes.end());
  return net;
}

TEST_CASE("the last block of a MobileNetV2 trains within 1 MB") {
  const ComparedStep net = FineTuning({"features.17.*", "classifier.*"});
  CHECK(net.step.plan.arena_bytes() <= kBudget);
  // Three convolutions and the classifier, by hand: weights and biases of 56 channels, expanded
  // to 336, to 112, and of 1280 to 10 classes.
  constexpr Bytes kTrained = 4 * (57 * 336 + 10 * 336 + 337 * 112 + 1281 * 10);
  const Bytes weights = net.step.plan.regions.weights;
  CHECK(weights >= kTrained);
  CHECK(weights < kTrained + 8 * kCAlignment);
  std::vector<double> losses;
  CHECK(testing::LossDifference(net, 20, &losses) < 1e-6);
  REQUIRE(losses.size() == 20);
  CHECK(losses.back() < 0.8 * losses.front());
}

}  // namespace
}  // namespace stowage
