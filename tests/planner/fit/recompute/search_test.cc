#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "planner/fit/recompute/climb.h"
#include "planner/fit/recompute/recompute.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {
namespace {

constexpr int64_t kWidth = 32;

// A training step of equal blocks x + W2 tanh(W1 norm(x)), the inner values four times as
// wide. The outputs of the blocks are called "x0", "x1", ...
Graph StepOfBlocks(int blocks) {
  GraphBuilder g("blocks");
  Value x = g.Input("x", DType::kF32, {256, kWidth});
  for (int k = 0; k < blocks; ++k) {
    const Value w1 =
        g.Param(StrCat("w1.", k), DType::kF32, {kWidth, 4 * kWidth});
    const Value w2 =
        g.Param(StrCat("w2.", k), DType::kF32, {4 * kWidth, kWidth});
    const Value norm =
        g.Name(StrCat("norm", k),
               RmsNorm(x, g.Param(StrCat("gamma", k), DType::kF32, {kWidth})));
    const Value wide = g.Name(StrCat("wide", k), MatMul(norm, w1));
    const Value tanh = g.Name(StrCat("tanh", k), Tanh(wide));
    x = g.Name(StrCat("x", k), Add(x, MatMul(tanh, w2)));
  }
  g.Output("loss", ReduceMean(Square(x), {0, 1}));
  const auto forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  auto step = BuildTrainStep(*forward, "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return std::move(*step);
}

std::vector<size_t> AllGaps(const Simulation& simulation) {
  std::vector<size_t> gaps(simulation.gaps().size());
  std::iota(gaps.begin(), gaps.end(), size_t{0});
  return gaps;
}

TEST_CASE("classes do not grow in number with the depth") {
  const auto classes_of = [](const Graph& graph) {
    const Simulation simulation(graph, {});
    return FindClasses(graph, simulation, AllGaps(simulation));
  };
  const Graph step = StepOfBlocks(12);
  const auto classes = classes_of(step);
  CHECK(classes.size() == classes_of(StepOfBlocks(24)).size());

  // Those far enough from the ends are alike, and nothing else is.
  const Simulation simulation(step, {});
  const size_t wide5 = simulation.first_gap(*step.Find("wide5"));
  const auto with_wide5 = std::ranges::find_if(classes, [&](const auto& each) {
    return std::ranges::find(each, wide5) != each.end();
  });
  REQUIRE(with_wide5 != classes.end());
  CHECK(with_wide5->size() >= 8);
  for (const size_t gap : *with_wide5) {
    CHECK(step.value(simulation.gaps()[gap].value).name.starts_with("wide"));
  }
  size_t members = 0;
  for (const auto& each : classes) members += each.size();
  CHECK(members == simulation.gaps().size());
}

// In 15 % of the live bytes of the step as given, there is room for the backward pass of a
// layer and for the outputs of most others. So every layer has to be recomputed once, and
// few of them once more.
TEST_CASE("equal layers run little more than once more in 15 % of the bytes") {
  const auto forward =
      BuildModel("gpt2-124m", ModelPurpose::kTrain, {.batch = 4, .seq = 1024});
  REQUIRE(forward.ok());
  const auto step = BuildTrainStep(*forward, "loss");
  REQUIRE(step.ok());
  double layers = 0;
  const NodeId end = step->value(*step->Find("h.11")).producer;
  for (NodeId n = 0; n <= end; ++n) layers += NodeFlops(*step, step->node(n));
  Simulation simulation(*step, {});
  const std::vector<FoundScript> found = SearchRecompute(*step, simulation, {});
  const auto target = static_cast<Bytes>(0.15 * found.front().peak);
  double cost = std::numeric_limits<double>::infinity();
  for (const FoundScript& each : found) {
    if (each.peak <= target) cost = std::min(cost, each.cost);
  }
  CHECK(cost <= 1.25 * layers);
}

TEST_CASE(
    "what is found runs, at the peak and the cost that it is said to have") {
  const Graph step = StepOfBlocks(6);
  Simulation simulation(step, {});
  const std::vector<FoundScript> found = SearchRecompute(step, simulation, {});
  REQUIRE(found.size() > 10);
  CHECK(found.front().cost == 0);
  for (size_t k = 0; k < found.size(); ++k) {
    REQUIRE(simulation.Run(found[k].script));
    CHECK(simulation.peak() == found[k].peak);
    CHECK(simulation.extra_cost() == found[k].cost);
    if (k == 0) continue;
    CHECK(found[k].peak < found[k - 1].peak);
    CHECK(found[k].cost > found[k - 1].cost);
  }
}

}  // namespace
}  // namespace stowage::fit
