#include <doctest/doctest.h>

#include <vector>

#include "autodiff/train_step.h"
#include "ir/layout.h"
#include "planner/fit/fit.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/planner/fit/recompute/oracle.h"
#include "tests/support/instances.h"

namespace stowage::fit {
namespace {

using testing::Instances;
using testing::LeastExtraFlops;
using testing::MakeSmallNet;

Graph StepOf(const Graph& forward) {
  auto step = BuildTrainStep(forward, "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return std::move(*step);
}

TEST_CASE("small nets cost at most 2 % more than the best of all schedules") {
  const PlanOptions options{.in_place = false};
  int compared = 0;
  int unpacked = 0;
  for (uint64_t seed = 0; seed < Instances(40u); ++seed) {
    INFO("seed ", seed);
    const Graph step = StepOf(MakeSmallNet(seed));
    CAPTURE(step.num_nodes());
    const auto given = PlanMemory(step, options);
    REQUIRE(given.ok());
    const Bytes reserved = given->arena_bytes() - given->regions.span();
    StepFitter fitter(
        OfGraph(step),
        {.plan = options, .optimizations = {.offload = OffloadChoice::kNone}});
    const auto smallest = fitter.SmallestBudget();
    REQUIRE(smallest.ok());

    // Live bytes that fit cannot always be packed.
    unpacked += LeastExtraFlops(step, *smallest - reserved - 1).has_value();
    for (int part = 0; part <= 4; ++part) {
      const Bytes budget =
          *smallest + (given->arena_bytes() - *smallest) * part / 5;
      const auto made = fitter.Fit(budget);
      REQUIRE_MESSAGE(made.ok(), made.error().message);
      CHECK(made->plan.arena_bytes() <= budget);
      CHECK(ValidatePlan(made->graph, made->plan).empty());
      const auto best = LeastExtraFlops(step, budget - reserved);
      REQUIRE(best.has_value());
      CHECK(made->price.extra_flops <= *best * 1.02);
      CHECK(made->price.least_extra_cost <= *best * (1 + 1e-9) + 1);
      CHECK(GraphFlops(made->graph) ==
            doctest::Approx(GraphFlops(step) + made->price.extra_flops));
      ++compared;
    }
  }
  CHECK(compared == 5 * Instances(40));
  CHECK(unpacked <= 1);
}

}  // namespace
}  // namespace stowage::fit
