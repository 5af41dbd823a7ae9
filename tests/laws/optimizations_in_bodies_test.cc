// Law 12: training steps with loops and branches, fitted to any budget, run alike to the
// bit: with iterations made again, values made again inside bodies or in the host's memory for a
// while, and nodes of bodies in another order.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "cpu/cpu_backend.h"
#include "ir/bodies.h"
#include "ir/graph.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/offload/offload.h"
#include "planner/validate_plan.h"
#include "runtime/session.h"
#include "tests/support/instances.h"
#include "tests/support/looped_blocks.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using testing::BlocksIn;
using testing::Differences;
using testing::Instances;
using testing::MakeLoopedBlocks;
using testing::MakeRandomControlFlow;
using testing::RunSteps;
using testing::Visible;

Graph StepOf(const Graph& forward) {
  Result<Graph> step = BuildTrainStep(forward, "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

// How much of what runs again is in a body, and no whole iteration.
size_t CountInBodies(const FittedStep& step) {
  return static_cast<size_t>(std::ranges::count_if(
      step.recomputed, [](const RecomputedNode& recomputed) {
        return recomputed.name.find('@') != std::string::npos;
      }));
}

// How much of a step's bodies is in the host's memory for a while.
size_t CountOffloadedInBodies(const FittedStep& step) {
  size_t values = 0;
  for (const Node& node : step.graph.nodes()) {
    if (BodiesOf(node).empty()) continue;
    values += static_cast<size_t>(fit::ValuesOffloaded(node));
  }
  return values;
}

// Budgets from what the step takes as it is down to the least, each lower.
std::vector<Bytes> FallingBudgets(StepFitter& fitter) {
  const Result<Bytes> least = fitter.SmallestBudget();
  REQUIRE_MESSAGE(least.ok(), least.error().message);
  // Nodes run as one may take less than what is fitted.
  const Bytes most = std::max(*least, fitter.AsGiven()->plan.arena_bytes());
  std::vector<Bytes> budgets;
  for (int k = 0; k < 4; ++k) {
    const Bytes budget = *least + (most - *least) * (4 - k) / 4;
    if (budgets.empty() || budget < budgets.back()) budgets.push_back(budget);
  }
  if (*least < budgets.back()) budgets.push_back(*least);
  return budgets;
}

// Over all budgets.
struct InBodies {
  size_t again = 0;
  size_t offloaded = 0;
};

// Runs the step fitted to falling budgets, planned and poisoned; returns how much its
// bodies do for that.
InBodies CheckInAllBudgets(const Graph& step, uint64_t seed,
                           const MemoryOptimizations& optimizations) {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const Visible alone = RunSteps(step, *cpu, {.seed = seed, .planned = false});
  StepFitter fitter(OfGraph(step),
                    {.plan = {.alignment = 64, .device = cpu->Needs()},
                     .optimizations = optimizations,
                     .effort = 0.05});
  InBodies in_bodies;
  double cost = 0;
  for (const Bytes budget : FallingBudgets(fitter)) {
    CAPTURE(budget);
    const Result<FittedStep> fitted = fitter.Fit(budget);
    REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
    CHECK(fitted->plan.arena_bytes() <= budget);
    CHECK(fitted->total_cost() >= cost);
    cost = fitted->total_cost();
    in_bodies.again += CountInBodies(*fitted);
    in_bodies.offloaded += CountOffloadedInBodies(*fitted);
    const std::vector<std::string> wrong =
        ValidatePlan(fitted->graph, fitted->plan);
    CHECK_MESSAGE(wrong.empty(), wrong.front());
    for (const bool poison : {false, true}) {
      Result<Session> session = Session::Create(
          {{"step", fitted->graph, fitted->plan}}, *cpu, {.poison = poison});
      REQUIRE_MESSAGE(session.ok(), session.error().message);
      CHECK(Differences(RunSteps(*session, {.seed = seed}), alone) == "");
    }
  }
  return in_bodies;
}

TEST_CASE("steps with bodies run alike in every budget down to the smallest") {
  size_t in_bodies = 0;
  for (uint64_t seed = 0; seed < Instances(60u); ++seed) {
    INFO("seed ", seed);
    const Graph step = StepOf(MakeRandomControlFlow(seed));
    for (const NodeOrder order : {NodeOrder::kGiven, NodeOrder::kMemory}) {
      CAPTURE(NodeOrderName(order));
      const InBodies done = CheckInAllBudgets(
          step, seed, {.offload = OffloadChoice::kNone, .order = order});
      in_bodies += done.again;
      CHECK(done.offloaded == 0);
    }
  }
  CHECK(in_bodies >= Instances(60u) / 4);
}

TEST_CASE(
    "steps with bodies run alike in every budget, by copies in them too") {
  size_t offloaded = 0;
  for (uint64_t seed = 0; seed < Instances(30u); ++seed) {
    INFO("seed ", seed);
    const Graph step = StepOf(MakeRandomControlFlow(seed));
    const Recompute recompute =
        seed % 2 == 0 ? Recompute::kAuto : Recompute::kNone;
    const MemoryOptimizations optimizations = {.recompute = recompute};
    offloaded += CheckInAllBudgets(step, seed, optimizations).offloaded;
  }
  CHECK(offloaded >= Instances(30u) / 10);
}

TEST_CASE("blocks in a loop, and in a branch, run alike in every budget") {
  for (const BlocksIn in :
       {BlocksIn::kLoop, BlocksIn::kBranch, BlocksIn::kBranchInLoop}) {
    CAPTURE(static_cast<int>(in));
    const Graph step = StepOf(MakeLoopedBlocks(
        {.rows = 256, .blocks = 4, .width = 8, .inner = 32, .in = in}));
    for (const NodeOrder order : {NodeOrder::kGiven, NodeOrder::kMemory}) {
      CHECK(CheckInAllBudgets(step, 1,
                              {.offload = OffloadChoice::kNone, .order = order})
                .again > 0);
    }
    if (in == BlocksIn::kLoop)
      continue;  // an iteration keeps nothing for a later phase
    CHECK(
        CheckInAllBudgets(step, 1, {.recompute = Recompute::kNone}).offloaded >
        0);
  }
}

}  // namespace
}  // namespace stowage
