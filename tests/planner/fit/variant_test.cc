#include "planner/fit/variant.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <utility>

#include "ir/graph.h"
#include "ir/layout.h"
#include "planner/fit/pieces/pieces.h"
#include "planner/plan_memory.h"
#include "tests/planner/fit/steps.h"

namespace stowage::fit {
namespace {

using testing::StepsOf;
using testing::TinyGpt;

std::unique_ptr<Variant> MakeVariant(int64_t pieces) {
  const StepBuilder build = StepsOf(TinyGpt, 8);
  auto variant =
      Variant::Make(pieces, build(pieces, Sampling::kOneOfAKind).value(), build,
                    [](PiecedStep&) -> Status { return {}; }, {});
  REQUIRE_MESSAGE(variant.ok(), variant.error().message);
  return *std::move(variant);
}

TEST_CASE("a sample counts as much as the whole step that it stands for") {
  for (const int64_t pieces : {1, 3, 8}) {
    CAPTURE(pieces);
    const auto variant = MakeVariant(pieces);
    const Graph whole =
        StepsOf(TinyGpt, 8)(pieces, Sampling::kAll).value().graph;
    CHECK(variant->pieces() == pieces);
    CHECK(variant->flops() == doctest::Approx(GraphFlops(whole)));
    CHECK(variant->cost() == doctest::Approx(GraphFlops(whole)));
    CHECK(variant->arena() == PlanMemory(whole)->arena_bytes());
  }
}

TEST_CASE("a variant fits its smallest budget, below it nothing") {
  for (const int64_t pieces : {1, 4}) {
    CAPTURE(pieces);
    const auto variant = MakeVariant(pieces);
    Bytes last = variant->arena();
    for (const Recompute recompute :
         {Recompute::kNone, Recompute::kCheap, Recompute::kAuto}) {
      CAPTURE(RecomputeName(recompute));
      const auto smallest = variant->Smallest(recompute, kNoLimit);
      REQUIRE(smallest.ok());
      REQUIRE(smallest->has_value());
      const Bytes least = **smallest;
      CHECK(least <= last);
      CHECK(variant->LeastArena(recompute).value() <= least);
      last = least;
      const auto fitted = variant->Fit(least, recompute, kAnyCost);
      REQUIRE(fitted.ok());
      REQUIRE(fitted->has_value());
      const FittedStep& step = **fitted;
      CHECK(step.plan.arena_bytes() <= least);
      CHECK(step.price.extra_cost <= (recompute == Recompute::kNone ? 0
                                      : recompute == Recompute::kCheap
                                          ? 0.01 * variant->cost()
                                          : kAnyCost));
      CHECK(variant->LeastCost(least, recompute).value() <=
            step.total_cost() * (1 + 1e-9));
      CHECK_FALSE(variant->Fit(least - 1, recompute, kAnyCost)->has_value());
      CHECK_FALSE(variant->Smallest(recompute, least - 1)->has_value());
      // Nothing that is no cheaper than what there is.
      CHECK_FALSE(
          variant->Fit(least, recompute, step.total_cost())->has_value());
    }
  }
}

}  // namespace
}  // namespace stowage::fit
