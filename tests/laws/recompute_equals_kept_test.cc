// Laws 2 and 3 for steps with recomputation: whatever is made twice, the run is
// bit-identical to one in which every value is made once and has memory of its
// own, also when every slot is filled with NaN at its death.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "planner/fit/fit.h"
#include "planner/fit/recompute/simulation.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/support/instances.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using fit::Fate;
using fit::Rewrite;
using fit::Script;
using fit::Simulation;
using testing::Differences;
using testing::Instances;
using testing::MakeRandomStep;
using testing::Rng;
using testing::RunSteps;

TEST_CASE("random fates change no bit of 400 random training steps") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  int rewritten = 0;
  int refused = 0;
  for (uint64_t seed = 0; seed < Instances(400u); ++seed) {
    INFO("seed ", seed);
    const Graph step = MakeRandomStep(seed);
    const auto unplanned =
        RunSteps(step, *cpu, {.steps = 3, .seed = seed, .planned = false});
    const WorkspaceFn workspace = cpu->Needs().workspace;
    Simulation simulation(step, {.workspace = workspace});
    Rng rng(seed);
    for (int round = 0; round < 4; ++round) {
      std::vector<Fate> fates = simulation.AsGiven();
      for (Fate& fate : fates) {
        if (rng.Below(4) <= round) fate = static_cast<Fate>(rng.Below(3));
      }
      if (!simulation.Run(fates)) {
        ++refused;
        continue;
      }
      const auto graph = Rewrite(step, simulation);
      REQUIRE_MESSAGE(graph.ok(), graph.error().message);
      rewritten += graph->num_nodes() > step.num_nodes();

      // The simulation knows what the planner will find.
      const auto plan =
          PlanMemory(*graph, {.device = {.workspace = workspace}});
      REQUIRE(plan.ok());
      CHECK(ValidatePlan(*graph, *plan).empty());
      CHECK(plan->lower_bound - plan->regions.weights - plan->regions.state -
                plan->regions.io ==
            simulation.peak());
      CHECK(GraphFlops(*graph) ==
            doctest::Approx(GraphFlops(step) + simulation.extra_cost()));

      const auto recomputed =
          RunSteps(*graph, *cpu, {.steps = 3, .seed = seed});
      CHECK(Differences(recomputed, unplanned) == "");
      const auto poisoned =
          RunSteps(*graph, *cpu, {.steps = 3, .seed = seed, .poison = true});
      CHECK(Differences(poisoned, unplanned) == "");
    }
  }
  CHECK(rewritten > Instances(1000));
  MESSAGE(rewritten, " steps with nodes run again, ", refused, " refused");
}

TEST_CASE("nodes of any phase run again without changing a bit") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  int of_backward = 0;
  for (uint64_t seed = 0; seed < Instances(100u); ++seed) {
    INFO("seed ", seed);
    const Graph step = MakeRandomStep(seed);
    const auto unplanned =
        RunSteps(step, *cpu, {.steps = 2, .seed = seed, .planned = false});
    Simulation simulation(step, {.workspace = cpu->Needs().workspace});
    Rng rng(seed);
    Script script;
    for (NodeId stage = 1; stage < step.num_nodes(); ++stage) {
      const auto node = static_cast<NodeId>(rng.Below(stage));
      if (rng.Below(4) != 0 || simulation.is_view(node)) continue;
      script.push_back({stage, node});
      // Updates, and what reads the params that they changed, cannot.
      if (!simulation.Run(script)) {
        script.pop_back();
        continue;
      }
      of_backward += step.node(node).phase == Phase::kBackward;
    }
    REQUIRE(simulation.Run(script));
    const auto graph = Rewrite(step, simulation);
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    const auto recomputed = RunSteps(*graph, *cpu, {.steps = 2, .seed = seed});
    CHECK(Differences(recomputed, unplanned) == "");
    const auto poisoned =
        RunSteps(*graph, *cpu, {.steps = 2, .seed = seed, .poison = true});
    CHECK(Differences(poisoned, unplanned) == "");
  }
  CHECK(of_backward > Instances(200));
}

TEST_CASE("300 random training steps are bit-identical under four budgets") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const WorkspaceFn workspace = cpu->Needs().workspace;
  int recomputed = 0;
  for (uint64_t seed = 0; seed < Instances(300u); ++seed) {
    INFO("seed ", seed);
    const Graph step = MakeRandomStep(seed);
    const auto unplanned =
        RunSteps(step, *cpu, {.steps = 2, .seed = seed, .planned = false});
    const PlanOptions options{.device = {.workspace = workspace}};
    // Plans need not be the best here.
    StepFitter fitter(OfGraph(step),
                      {.plan = options,
                       .optimizations = {.offload = OffloadChoice::kNone},
                       .effort = 0.02});
    const auto smallest = fitter.SmallestBudget();
    REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
    const Bytes given = PlanMemory(step, options)->arena_bytes();
    CHECK(*smallest <= given);
    for (int part = 0; part < 4; ++part) {
      const Bytes budget = *smallest + (given - *smallest) * part / 4;
      const auto made = fitter.Fit(budget);
      REQUIRE_MESSAGE(made.ok(), made.error().message);
      CHECK(made->plan.arena_bytes() <= budget);
      CHECK(ValidatePlan(made->graph, made->plan).empty());
      recomputed += made->price.recomputed_nodes > 0;
      const auto run = RunSteps(made->graph, *cpu, {.steps = 2, .seed = seed});
      CHECK(Differences(run, unplanned) == "");
      const auto poisoned = RunSteps(
          made->graph, *cpu, {.steps = 2, .seed = seed, .poison = true});
      CHECK(Differences(poisoned, unplanned) == "");
    }
    CHECK(!fitter.Fit(*smallest - 1).ok());
  }
  CHECK(recomputed > Instances(600));
}

}  // namespace
}  // namespace stowage
