// Law: in a chain of equal layers, what runs again within a budget is what Revolve's
// closed form says that it is, at every budget.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "planner/fit/fit.h"
#include "planner/fit/recompute/exact.h"
#include "planner/fit/recompute/recompute.h"
#include "planner/fit/recompute/simulation.h"
#include "planner/validate_plan.h"
#include "tests/support/instances.h"
#include "tests/support/run_steps.h"

namespace stowage::fit {
namespace {

using testing::Differences;
using testing::Instances;
using testing::RunSteps;
using testing::TakesAllInstances;

constexpr int64_t kRows = 64;
constexpr int64_t kWidth = 16;
constexpr Bytes kValue = kRows * kWidth * 4;
// At the fullest moment, numbers: the loss, and at most two for its gradient.
constexpr Bytes kNumbers = 3 * 256;

// Layers x_i = tanh(x_{i-1}), or with products, x_i = tanh(x_{i-1} c_i), c_i not
// trained. Backward reads every x_i but x_0, which is a param and always there. The
// gradient of the last is a value of its own.
Graph Chain(int64_t layers, bool with_products) {
  GraphBuilder g("chain");
  Value x = g.Param("x", DType::kF32, {kRows, kWidth});
  for (int64_t i = 1; i <= layers; ++i) {
    if (with_products) {
      x = MatMul(x, g.Input(StrCat("c", i), DType::kF32, {kWidth, kWidth}));
    }
    x = g.Name(StrCat("x", i), Tanh(x));
  }
  const Value c = g.Input("c", DType::kF32, {kRows, kWidth});
  g.Output("loss", ReduceMean(Mul(x, c), {0, 1}));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  Result<Graph> step = BuildTrainStep(*forward, "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

double FlopsOfLayer(bool with_products) {
  constexpr double kTanh = 8;  // an element
  return static_cast<double>(kRows * kWidth) *
         (kTanh + (with_products ? 2.0 * kWidth : 0));
}

// Griewank and Walther 2000, Theorem 1: the steps that reading x_0, ..., x_n in reverse
// takes beyond the n of the chain itself, where x_0 and so many less one of the others
// have places, beside what is being made.
int64_t StepsAgain(int64_t n, int64_t places) {
  const auto beta = [](int64_t s, int64_t r) {
    double product = 1;  // (s + r)! / (s! r!)
    for (int64_t k = 1; k <= s; ++k) {
      product *= static_cast<double>(r + k) / static_cast<double>(k);
    }
    return static_cast<int64_t>(product + 0.5);
  };
  int64_t r = 0;
  while (beta(places, r) < n + 1) ++r;
  return r * (n + 1) - beta(places + 1, r - 1) - n;
}

// What is there at the fullest moment: so many values of the chain but x_0, of which one
// is being made, and a gradient; with products, also what one is being made of.
Bytes NeedOf(int64_t places, bool with_products) {
  return (places + (with_products ? 2 : 1)) * kValue;
}

TEST_CASE("1,000 layers cost what Revolve's closed form says, at every size" *
          doctest::skip(!TakesAllInstances())) {
  constexpr int64_t kLayers = 1000;
  for (const bool with_products : {false, true}) {
    INFO("with products: ", with_products);
    const Graph step = Chain(kLayers, with_products);
    RecomputeChoices choices(step, {}, {});
    const auto all = choices.All();
    REQUIRE_MESSAGE(all.ok(), all.error().message);
    const Result<Plan> given = choices.PlanAsGiven();
    REQUIRE(given.ok());
    const Bytes reserved = given->arena_bytes() - given->regions.span();
    for (int64_t places = 1; places <= kLayers; ++places) {
      INFO(places, " places");
      const Bytes budget = reserved + NeedOf(places, with_products) + kNumbers;
      // By rising cost.
      const auto fits = [&](const RecomputeChoice& choice) {
        return choice.least_arena <= budget;
      };
      const auto choice = std::ranges::find_if(*all, fits);
      REQUIRE(choice != all->end());
      const double revolve = static_cast<double>(StepsAgain(kLayers, places)) *
                             FlopsOfLayer(with_products);
      // What a product is made of is not there at every fullest moment, so that
      // there may be a place more.
      if (with_products) {
        CHECK(choice->cost <= revolve);
      } else {
        CHECK(choice->cost == revolve);
      }
    }
    CHECK(all->back().least_arena >= reserved + NeedOf(1, with_products));
  }
}

TEST_CASE("a budget is met at that cost, packed") {
  constexpr int64_t kLayers = 200;
  const Graph step = Chain(kLayers, /*with_products=*/false);
  StepFitter fitter(OfGraph(step),
                    {.optimizations = {.offload = OffloadChoice::kNone}});
  const auto given = fitter.AsGiven();
  REQUIRE_MESSAGE(given.ok(), given.error().message);
  const Bytes reserved = given->plan.arena_bytes() - given->plan.regions.span();
  for (const int64_t places :
       Instances(std::vector<int64_t>{20, 1, 2, 3, 5, 8, 13, 14, 100, 199})) {
    INFO(places, " places");
    const Bytes budget = reserved + NeedOf(places, false) + kNumbers;
    const auto fitted = fitter.Fit(budget);
    REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
    CHECK(fitted->plan.arena_bytes() <= budget);
    CHECK(fitted->price.extra_flops ==
          static_cast<double>(StepsAgain(kLayers, places)) *
              FlopsOfLayer(false));
  }
  CHECK(!fitter.Fit(reserved + NeedOf(1, false) - 1).ok());
}

TEST_CASE("no other schedule of a short chain costs less") {
  constexpr int64_t kLayers = 9;
  const Graph step = Chain(kLayers, /*with_products=*/false);
  Simulation simulation(step, {});
  for (int64_t places = 1; places <= kLayers; ++places) {
    INFO(places, " places");
    int64_t effort = 20'000'000;
    const std::optional<Script> script =
        CheapestScript(step, simulation, NeedOf(places, false) + kNumbers,
                       /*gradients=*/true, &effort);
    REQUIRE(script);
    REQUIRE(simulation.Run(*script));
    CHECK(simulation.extra_cost() ==
          static_cast<double>(StepsAgain(kLayers, places)) *
              FlopsOfLayer(false));
  }
}

TEST_CASE("whatever runs again, the bits are those of the chain as it is") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const Graph step = Chain(70, /*with_products=*/true);
  const auto alone = RunSteps(step, *cpu, {.planned = false});
  RecomputeChoices choices(step, {.device = cpu->Needs()}, {});
  const auto all = choices.All();
  REQUIRE_MESSAGE(all.ok(), all.error().message);
  const size_t stride = TakesAllInstances() ? 10 : 100;
  for (size_t k = 0; k < all->size(); k += stride) {
    INFO("choice ", k);
    const Result<RecomputedGraph> made = choices.Make((*all)[k].script);
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    CHECK(ValidatePlan(made->graph, made->plan).empty());
    CHECK(Differences(RunSteps(made->graph, *cpu, {.poison = true}), alone) ==
          "");
  }
}

}  // namespace
}  // namespace stowage::fit
