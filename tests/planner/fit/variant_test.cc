#include "planner/fit/variant.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/text.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/plan_memory.h"
#include "tests/planner/fit/steps.h"

namespace stowage::fit {
namespace {

using testing::StepsOf;
using testing::TinyGpt;

std::unique_ptr<Variant> MakeVariant(int64_t micro_batches) {
  const StepBuilder build = StepsOf(TinyGpt, 8);
  auto variant = Variant::Make(
      micro_batches, build(micro_batches, Sampling::kOneOfAKind).value(), build,
      [](SampledStep&) -> Result<Variant::InBodies> {
        return Variant::InBodies();
      },
      {});
  REQUIRE_MESSAGE(variant.ok(), variant.error().message);
  return *std::move(variant);
}

TEST_CASE("a sample counts as much as the whole step that it stands for") {
  for (const int64_t micro_batches : {1, 3, 8}) {
    CAPTURE(micro_batches);
    const auto variant = MakeVariant(micro_batches);
    const Graph whole =
        StepsOf(TinyGpt, 8)(micro_batches, Sampling::kAll).value().graph;
    CHECK(variant->micro_batches() == micro_batches);
    CHECK(variant->flops() == doctest::Approx(GraphFlops(whole)));
    CHECK(variant->cost() == doctest::Approx(GraphFlops(whole)));
    CHECK(variant->arena() == PlanMemory(whole)->arena_bytes());
  }
}

TEST_CASE("a variant fits its smallest budget, below it nothing") {
  for (const int64_t micro_batches : {1, 4}) {
    CAPTURE(micro_batches);
    const auto variant = MakeVariant(micro_batches);
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
      CHECK(variant->LeastCost(least, recompute, kAnyCost).value() <=
            step.total_cost() * (1 + 1e-9));
      CHECK_FALSE(variant->Fit(least - 1, recompute, kAnyCost)->has_value());
      CHECK_FALSE(variant->Smallest(recompute, least - 1)->has_value());
      // Nothing that is no cheaper than what there is.
      CHECK_FALSE(
          variant->Fit(least, recompute, step.total_cost())->has_value());
    }
  }
}

// While the gradient is made, its operand, scratch and the loss have to be there.
TEST_CASE("a step that nothing makes smaller is known by its bound") {
  const Result<Graph> step = ParseGraph(R"(stowage-ir 1
graph "step" {
  x: f32(4096) = input
  w: f32(4096) = param
  lr: f32() = input
  y: f32(4096) = stand_in(x, w) {dtype=f32, ranks=[1], dims=[4096], flops=1.0}
  loss: f32() = reduce_mean(y) {axes=[0], keep=0}
  dw: f32(4096) gradient = stand_in(y) {dtype=f32, ranks=[1], dims=[4096], flops=1.0} @backward("loss")
  w2: f32(4096) = sgd_update(w, dw, lr) {decay=0.0} @update("w")
  output "loss" = loss
}
)");
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  Variant::Options options;
  options.plan.device.workspace = [](const Graph&, const Node& node) {
    return Bytes{node.op == OpKind::kStandIn ? 65536 : 0};
  };
  const auto made = Variant::Make(
      1, {.graph = *step}, OfGraph(*step),
      [](SampledStep&) -> Result<Variant::InBodies> {
        return Variant::InBodies();
      },
      options);
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  Variant& variant = **made;
  const Bytes arena = (16384 + 16384 + 256) + (2 * 16384 + 65536 + 256);
  CHECK(variant.arena() == arena);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kAuto}) {
    CAPTURE(RecomputeName(recompute));
    CHECK(variant.LeastArena(recompute).value() == arena);
    CHECK(variant.SmallestAsGiven(recompute, arena).value() == arena);
    CHECK(variant.SmallestAsGiven(recompute, arena - 1).value() ==
          std::nullopt);
    CHECK(variant.Smallest(recompute, kNoLimit).value() == arena);
  }
}

TEST_CASE("below a limit the least cost is sure, from there on it is enough") {
  const auto variant = MakeVariant(4);
  const Bytes least = variant->LeastArena(Recompute::kAuto).value();
  for (int percent = 10; percent <= 100; percent += 15) {
    CAPTURE(percent);
    const Bytes budget = least + (variant->arena() - least) * percent / 100;
    // Of a variant of its own, that has not found any of it before.
    const double sure =
        MakeVariant(4)->LeastCost(budget, Recompute::kAuto, kAnyCost).value();
    for (const double limit :
         {variant->cost(), (variant->cost() + sure) / 2, sure, 2 * sure}) {
      const double known =
          variant->LeastCost(budget, Recompute::kAuto, limit).value();
      CHECK(known <= sure);
      CHECK((known >= limit || known == sure));
    }
  }
}

}  // namespace
}  // namespace stowage::fit
