// Law 8: a larger set of optimizations never refuses a budget that a smaller one takes,
// nor costs more.

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpu/cpu_backend.h"
#include "ir/graph.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/instances.h"

namespace stowage {
namespace {

using testing::Instances;
using testing::StepsOf;
using testing::TakesAllInstances;
using testing::TinyGpt;

std::vector<MemoryOptimizations> OptimizationSets(
    const std::vector<int64_t>& micro_batches, bool in_orders) {
  std::vector<MemoryOptimizations> sets;
  for (const NodeOrder order : {NodeOrder::kGiven, NodeOrder::kMemory}) {
    if (order == NodeOrder::kMemory && !in_orders) continue;
    for (const OffloadChoice offload :
         {OffloadChoice::kNone, OffloadChoice::kAuto}) {
      for (const auto& some : {std::vector<int64_t>{1}, micro_batches}) {
        for (const Recompute recompute :
             {Recompute::kNone, Recompute::kCheap, Recompute::kAuto}) {
          sets.push_back({.micro_batches = some,
                          .recompute = recompute,
                          .offload = offload,
                          .order = order});
        }
      }
    }
  }
  return sets;
}

bool IsSubset(const MemoryOptimizations& a, const MemoryOptimizations& b) {
  return a.micro_batches.size() <= b.micro_batches.size() &&
         a.recompute <= b.recompute && a.offload <= b.offload &&
         a.order <= b.order;
}

std::string NameOf(const MemoryOptimizations& optimizations) {
  std::string name(RecomputeName(optimizations.recompute));
  name += optimizations.micro_batches.size() > 1 ? ", in micro-batches" : "";
  name += optimizations.offload == OffloadChoice::kAuto ? ", offload" : "";
  name +=
      optimizations.order == NodeOrder::kMemory ? ", in memory's order" : "";
  return name;
}

struct Case {
  const char* name;
  std::function<Graph(int64_t)> model;
  int64_t batch;
  std::vector<int64_t> micro_batches;
  bool in_orders = false;
};

Graph Mlp(int64_t batch) {
  return *BuildModel("mlp", ModelPurpose::kTrain, {.batch = batch});
}

Graph GptNano(int64_t batch) {
  return *BuildModel("gpt-nano", ModelPurpose::kTrain,
                     {.batch = batch, .seq = 16});
}

TEST_CASE("more optimizations never refuse what fewer take, nor cost more") {
  int compared = 0, refused = 0, cheaper = 0;
  for (const Case& c :
       Instances<Case>({{"tiny", TinyGpt, 6, {1, 2, 4, 6}},
                        {"mlp", Mlp, 512, {1, 2, 4}, /*in_orders=*/true},
                        {"gpt-nano", GptNano, 4, {1, 2, 4}}})) {
    INFO(c.name);
    const std::vector<MemoryOptimizations> sets =
        OptimizationSets(c.micro_batches, c.in_orders);
    std::vector<StepFitter> fitters;
    for (const MemoryOptimizations& optimizations : sets) {
      // Choices need not be the best here.
      fitters.emplace_back(
          StepsOf(c.model, c.batch),
          FitOptions{.optimizations = optimizations, .effort = 0.03});
    }
    // From what all optimizations together reach to what fits without.
    const Bytes least = fitters.back().SmallestBudget().value();
    const Bytes given = fitters.back().AsGiven()->plan.arena_bytes();
    const int budgets = Instances(20);
    for (int k = 0; k < budgets; ++k) {
      const Bytes budget = least + (given - least) * k / budgets;
      CAPTURE(budget);
      std::vector<std::optional<double>> costs;  // none: refused
      for (StepFitter& fitter : fitters) {
        const Result<FittedStep> fitted = fitter.Fit(budget);
        if (fitted.ok()) {
          CHECK(fitted->plan.arena_bytes() <= budget);
          costs.emplace_back(fitted->total_cost());
        } else {
          CHECK(fitted.error().code == ErrorCode::kBudgetTooSmall);
          costs.emplace_back();
        }
      }
      for (size_t s = 0; s < sets.size(); ++s) {
        for (size_t t = 0; t < sets.size(); ++t) {
          if (s == t || !IsSubset(sets[s], sets[t])) continue;
          ++compared;
          refused += !costs[s] && costs[t];
          if (!costs[s]) continue;
          INFO(NameOf(sets[s]), " and ", NameOf(sets[t]));
          CHECK(costs[t].has_value());
          if (!costs[t]) continue;
          CHECK(*costs[t] <= *costs[s] * (1 + 1e-9));
          cheaper += *costs[t] < *costs[s] * (1 - 1e-9);
        }
      }
    }
  }
  if (!TakesAllInstances()) return;
  // Or nothing is shown.
  CHECK(compared > 2000);
  CHECK(refused > 0);
  CHECK(cheaper > 0);
}

TEST_CASE("gpt2-124m fits in micro-batches what it fits in one" *
          doctest::skip(!TakesAllInstances())) {
  // Half the search once missed, in micro-batches, what the whole one finds.
  constexpr Bytes kBudget = 1'708'677'120;
  const auto cpu = MakeCpuBackend({.threads = 1});
  const StepBuilder build = StepsOf(
      [](int64_t batch) {
        return *BuildModel("gpt2-124m", ModelPurpose::kTrain,
                           {.batch = batch, .seq = 256});
      },
      4);
  const auto fit = [&](std::vector<int64_t> micro_batches) {
    StepFitter fitter(
        build, {.plan = {.device = cpu->Needs()},
                .optimizations = {.micro_batches = std::move(micro_batches),
                                  .offload = OffloadChoice::kNone}});
    return fitter.Fit(kBudget);
  };
  const Result<FittedStep> in_one = fit({1});
  REQUIRE_MESSAGE(in_one.ok(), in_one.error().message);
  const Result<FittedStep> in_any = fit({1, 2, 4});
  REQUIRE_MESSAGE(in_any.ok(), in_any.error().message);
  CHECK(in_any->total_cost() <= in_one->total_cost() * (1 + 1e-9));
}

}  // namespace
}  // namespace stowage
