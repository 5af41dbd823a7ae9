#include "ir/bodies.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/text.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/recompute/iterations.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/support/looped_blocks.h"

namespace stowage::fit {
namespace {

using testing::BlocksIn;
using testing::MakeLoopedBlocks;

constexpr int64_t kBlocks = 4;
constexpr int kLayers = 6;
constexpr int64_t kRows = 256, kInner = 32;
// Of one of the values that a layer makes.
constexpr Bytes kValue = kRows * kInner * 4;

Graph StepOf(BlocksIn in) {
  Result<Graph> step = BuildTrainStep(MakeLoopedBlocks({.rows = kRows,
                                                        .blocks = kBlocks,
                                                        .width = 8,
                                                        .inner = kInner,
                                                        .layers = kLayers,
                                                        .in = in}),
                                      "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

Plan PlanOf(const Graph& graph) {
  Result<Plan> plan = PlanMemory(graph, {});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  CHECK(ValidatePlan(graph, *plan).empty());
  return *std::move(plan);
}

TEST_CASE(
    "what an iteration that is made again keeps for its gradient goes away") {
  const Graph step = StepOf(BlocksIn::kLoop);
  // What its loops stack is no body's.
  CHECK_FALSE(WaitsInBodies(step));
  CHECK(ToText(*OffloadInBodies(step)) == ToText(step));

  const Result<RecomputedIterations> again = RecomputeIterations(step, {});
  REQUIRE_MESSAGE(again.ok(), again.error().message);
  REQUIRE(again->loops.size() == 1);
  CHECK(WaitsInBodies(again->graph));
  const Result<Graph> moved = OffloadInBodies(again->graph);
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  CHECK(moved->num_nodes() == again->graph.num_nodes());
  // Each layer's result but the last one's, which the gradient begins with; in each iteration
  // there once, and back for the gradients of what made it and of what read it.
  const HostUse use = FindHostUse(*moved);
  CHECK(use.values == kBlocks * (kLayers - 1));
  CHECK(use.bytes_per_step == 3 * use.values * kValue);
  const Plan before = PlanOf(again->graph);
  const Plan after = PlanOf(*moved);
  // The host has those of one iteration, and the arena two of them at a time.
  CHECK(after.host_bytes() == (kLayers - 1) * kValue);
  CHECK(before.arena_bytes() - after.arena_bytes() >= (kLayers - 3) * kValue);
}

TEST_CASE("what a node's bodies copy costs what it does in all iterations") {
  const Result<RecomputedIterations> again =
      RecomputeIterations(StepOf(BlocksIn::kLoop), {});
  REQUIRE_MESSAGE(again.ok(), again.error().message);
  const Result<Graph> moved = OffloadInBodies(again->graph);
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  const auto cost = [](const Graph& graph, double per_byte) {
    double sum = 0;
    for (const double each : CostsOfNodes(graph, {}, per_byte)) sum += each;
    return sum;
  };
  CHECK(cost(*moved, 3) - cost(again->graph, 3) ==
        3.0 * static_cast<double>(FindHostUse(*moved).bytes_per_step));
}

TEST_CASE("the gradient of a branch keeps what it makes again on the host") {
  const Graph step = StepOf(BlocksIn::kBranch);
  CHECK(WaitsInBodies(step));
  const Result<Graph> moved = OffloadInBodies(step);
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  // Of two bodies, of which the first has a layer less, the one that copies most counts.
  CHECK(FindHostUse(*moved).values == kLayers - 1);
  const Plan after = PlanOf(*moved);
  CHECK(after.host_bytes() == (kLayers - 1) * kValue);
  CHECK(after.arena_bytes() < PlanOf(step).arena_bytes());
}

TEST_CASE("copies in bodies cost the time that they are measured to take") {
  const Result<Graph> step = BuildTrainStep(
      MakeLoopedBlocks({.in = BlocksIn::kLoop}), "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  // A copy takes so long, whatever its bytes; all else as many operations.
  for (const double copy : {0.0, 1e12}) {
    CAPTURE(copy);
    const CostFn cost = [copy](const Graph& graph) {
      std::vector<double> costs = FlopsOfNodes(graph);
      for (NodeId id = 0; id < graph.num_nodes(); ++id) {
        const Node& node = graph.node(id);
        const bool copies =
            BodiesOf(node).empty() && BytesCopied(graph, node) > 0;
        if (copies) costs[static_cast<size_t>(id)] = copy;
      }
      return costs;
    };
    StepFitter fitter(OfGraph(*step), {.cost = cost, .cost_per_byte = 0});
    const Result<Bytes> near =
        fitter.SmallestBudget({.offload = OffloadChoice::kNone});
    REQUIRE(near.ok());
    const Result<FittedStep> fitted = fitter.Fit(*near);
    REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
    CHECK((fitted->price.host.values > 0) == (copy == 0));
    CHECK(fitted->price.least_extra_cost <= fitted->price.extra_cost);
  }
}

TEST_CASE("copies in bodies fit steps into budgets that nothing else does") {
  for (const BlocksIn in :
       {BlocksIn::kLoop, BlocksIn::kBranch, BlocksIn::kBranchInLoop}) {
    CAPTURE(static_cast<int>(in));
    const Result<Graph> step = BuildTrainStep(MakeLoopedBlocks({.in = in}),
                                              "loss", {.optimizer = Sgd{}});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    StepFitter fitter(OfGraph(*step), {});
    const Result<Bytes> near =
        fitter.SmallestBudget({.offload = OffloadChoice::kNone});
    const Result<Bytes> least = fitter.SmallestBudget();
    REQUIRE(near.ok());
    REQUIRE(least.ok());
    CHECK(*least < *near);
    const Result<FittedStep> fitted = fitter.Fit(*least);
    REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
    CHECK(fitted->plan.arena_bytes() <= *least);
    CHECK(fitted->plan.host_bytes() > 0);
    CHECK(fitted->price.host.bytes_per_step ==
          FindHostUse(fitted->graph).bytes_per_step);
    // It costs its operations, and its copies.
    CHECK(fitted->total_cost() ==
          doctest::Approx(
              GraphFlops(fitted->graph) +
              kOffloadFlopsPerByte *
                  static_cast<double>(fitted->price.host.bytes_per_step)));
    CHECK(fitted->price.least_extra_cost <= fitted->price.extra_cost);
    CHECK_FALSE(fitter.Fit(*least - 1).ok());
    // What fits without costs no copies.
    CHECK(fitter.Fit(*near)->price.host.values == 0);
  }
}

}  // namespace
}  // namespace stowage::fit
