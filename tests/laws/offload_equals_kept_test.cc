// Laws 2 and 3 for steps that keep something on the host: whatever is moved, the
// run is bit-identical to one in which nothing is and every value has memory of
// its own, also when every slot, on the host too, is filled with NaN at its
// death.

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "planner/fit/fit.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/order/order.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/support/files.h"
#include "tests/support/instances.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using fit::BytesCopied;
using fit::FindOffloadable;
using fit::FindOffloadableParams;
using fit::Offload;
using fit::Offloadable;
using fit::PlanInMemoryOrder;
using fit::Prefetch;
using testing::Differences;
using testing::EmptyFolder;
using testing::Instances;
using testing::MakeRandomStep;
using testing::Rng;
using testing::RunSteps;

// A backend whose host memory is a file.
std::unique_ptr<Backend> MakeDiskBackend(int threads) {
  return MakeCpuBackend(
      {.threads = threads, .offload_folder = EmptyFolder("offload")});
}

// All that can be moved: states, forward values, and params.
std::vector<Offloadable> FindAll(const Graph& step) {
  std::vector<Offloadable> all = FindOffloadable(step);
  for (Offloadable& param : FindOffloadableParams(step, /*trained=*/true)) {
    all.push_back(std::move(param));
  }
  return all;
}

TEST_CASE("moving anything changes no bit of 300 random training steps") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const auto disk = MakeDiskBackend(1);
  const WorkspaceFn workspace = cpu->Needs().workspace;
  int moved_values = 0, moved_persistent = 0, moved_params = 0, moved_up = 0;
  for (uint64_t seed = 0; seed < Instances(300u); ++seed) {
    INFO("seed ", seed);
    const Graph step = MakeRandomStep(seed);
    const auto unplanned =
        RunSteps(step, *cpu, {.steps = 3, .seed = seed, .planned = false});
    const std::vector<Offloadable> all = FindAll(step);
    Rng rng(seed);
    std::vector<Offloadable> some;
    for (const Offloadable& o : all) {
      if (rng.Below(2) != 0) continue;
      some.push_back(o);
      if (o.persists()) some.back().again = o.always;
    }
    for (const std::vector<Offloadable>& moved : {all, some}) {
      const auto graph = Offload(step, moved);
      REQUIRE_MESSAGE(graph.ok(), graph.error().message);
      const auto plan =
          PlanMemory(*graph, {.device = {.workspace = workspace}});
      REQUIRE(plan.ok());
      CHECK(ValidatePlan(*graph, *plan).empty());
      for (const Offloadable& o : moved) {
        ++(o.persists() ? moved_persistent : moved_values);
        moved_params += step.value(o.value).role == Role::kParam;
      }
      const auto run = RunSteps(*graph, *cpu, {.steps = 3, .seed = seed});
      CHECK(Differences(run, unplanned) == "");
      if (seed % 3 == 0) {
        const auto on_disk = RunSteps(
            *graph, *disk, {.steps = 3, .seed = seed, .poison = seed % 2 == 0});
        CHECK(Differences(on_disk, unplanned) == "");
      }
      const auto poisoned =
          RunSteps(*graph, *cpu, {.steps = 3, .seed = seed, .poison = true});
      CHECK(Differences(poisoned, unplanned) == "");

      // As early as a quarter more, or twice the memory, allows.
      const CostFn cost = [](const Graph& of) {
        std::vector<double> costs;
        for (const Node& node : of.nodes()) {
          costs.push_back(BytesCopied(of, node) > 0 ? 1e6 : 1);
        }
        return costs;
      };
      const Bytes budget = plan->arena_bytes() * (seed % 2 == 0 ? 5 : 8) / 4;
      const auto early = Prefetch(*graph, *plan, budget, cost,
                                  {.device = {.workspace = workspace}});
      REQUIRE_MESSAGE(early.ok(), early.error().message);
      moved_up += early->moved;
      const auto in_time = RunSteps(early->graph, *cpu,
                                    {.steps = 3, .seed = seed, .poison = true});
      CHECK(Differences(in_time, unplanned) == "");
      if (seed % 3 == 1) {
        const auto beside =
            RunSteps(early->graph, *disk, {.steps = 3, .seed = seed});
        CHECK(Differences(beside, unplanned) == "");
      }
    }
  }
  CHECK(moved_up > Instances(1000));
  CHECK(moved_values > Instances(1000));
  CHECK(moved_persistent - moved_params > Instances(500));
  CHECK(moved_params > Instances(500));
}

int64_t CountReloads(const Graph& graph) {
  return std::ranges::count(graph.nodes(), OpKind::kReload, &Node::op);
}

TEST_CASE("recomputed and reordered, moved steps still change no bit") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const WorkspaceFn workspace = cpu->Needs().workspace;
  const auto disk = MakeDiskBackend(1);
  int recomputed = 0, reloaded_again = 0;
  for (uint64_t seed = 0; seed < Instances(60u); ++seed) {
    INFO("seed ", seed);
    const Graph step = MakeRandomStep(seed);
    const auto unplanned =
        RunSteps(step, *cpu, {.steps = 2, .seed = seed, .planned = false});
    // Half of it: with all values moved there is nothing left to make twice. And all
    // params, which are reloaded again where that is cheaper than to keep them.
    std::vector<Offloadable> half = FindOffloadable(step);
    half.resize(half.size() / 2);
    for (Offloadable& param : FindOffloadableParams(step, /*trained=*/true)) {
      param.again = param.always;
      half.push_back(std::move(param));
    }
    const Graph moved = *Offload(step, half);
    const PlanOptions options{.device = {.workspace = workspace}};
    StepFitter fitter(
        OfGraph(moved),
        {.plan = options, .optimizations = {.offload = OffloadChoice::kNone}});
    const auto made = fitter.Fit(*fitter.SmallestBudget());
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    recomputed += made->price.recomputed_nodes > 0;
    reloaded_again += CountReloads(made->graph) > CountReloads(moved);
    const auto ordered = PlanInMemoryOrder(moved, options, 100'000);
    REQUIRE_MESSAGE(ordered.ok(), ordered.error().message);
    for (const Graph* graph : {&made->graph, &ordered->graph}) {
      const auto run =
          RunSteps(*graph, *cpu, {.steps = 2, .seed = seed, .poison = true});
      CHECK(Differences(run, unplanned) == "");
      const auto on_disk = RunSteps(*graph, *disk, {.steps = 2, .seed = seed});
      CHECK(Differences(on_disk, unplanned) == "");
    }
  }
  CHECK(recomputed > Instances(30));
  CHECK(reloaded_again > Instances(10));
}

}  // namespace
}  // namespace stowage
