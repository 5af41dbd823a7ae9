#include "planner/fit/grid.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/variant.h"
#include "tests/planner/fit/steps.h"

namespace stowage::fit {
namespace {

using testing::StepsOf;
using testing::TinyGpt;

Graph Mlp(int64_t batch) {
  return *BuildModel("mlp", ModelPurpose::kTrain, {.batch = batch});
}

TEST_CASE("what needs the least is found, be it few micro-batches or many") {
  // Of a small batch the sums of gradients are more than its values.
  struct Case {
    int64_t batch, wins;
  };
  for (const Case c : {Case{4, 1}, Case{2048, 4}}) {
    CAPTURE(c.batch);
    const std::vector<int64_t> all = {1, 2, 4};
    Grid grid(StepsOf(Mlp, c.batch), {});
    for (const Recompute recompute : {Recompute::kNone, Recompute::kAuto}) {
      const auto smallest = [&](const std::vector<int64_t>& micro_batches) {
        const auto need = grid.Smallest({.micro_batches = micro_batches,
                                         .recompute = recompute,
                                         .offload = OffloadChoice::kNone});
        REQUIRE_MESSAGE(need.ok(), need.error().message);
        return need->bytes;
      };
      std::map<Bytes, int64_t> micro_batches_by_need;
      for (const int64_t micro_batches : all) {
        micro_batches_by_need.emplace(smallest({micro_batches}), micro_batches);
      }
      const auto [least, micro_batches] = *micro_batches_by_need.begin();
      CHECK(micro_batches == c.wins);
      CHECK(smallest(all) == least);
      std::optional<Bytes> within;
      for (const int64_t each : all) {
        Variant* const variant = grid.Get(each, {}).value();
        const auto of_each = variant->Smallest(recompute, least);
        REQUIRE(of_each.ok());
        if (*of_each) within = *of_each;
        CHECK_FALSE(variant->Smallest(recompute, least - 1)->has_value());
      }
      CHECK(within == least);
    }
  }
}

TEST_CASE("what needs the least is found, whatever lies on the host") {
  for (const std::vector<int64_t>& all :
       {std::vector<int64_t>{1}, std::vector<int64_t>{1, 2}}) {
    CAPTURE(all.size());
    Grid grid(StepsOf(TinyGpt, 2), {.plan = {}, .recompute = {.effort = 0.02}});
    const auto need = grid.Smallest({.micro_batches = all});
    REQUIRE_MESSAGE(need.ok(), need.error().message);
    const std::vector<Offloadable> movable =
        FindOffloadable(grid.Get(1, {}).value()->sample());
    const std::vector<Share> shares = SharesToTry(movable);
    REQUIRE(shares.size() > 3);
    Bytes least = kNoLimit;
    for (const Share share : shares) {
      for (const int64_t micro_batches : all) {
        Variant* const variant = grid.Get(micro_batches, share).value();
        least = std::min(
            least, variant->Smallest(Recompute::kAuto, kNoLimit)->value());
      }
    }
    CHECK(need->bytes == least);
    CHECK(need->variant->Smallest(Recompute::kAuto, kNoLimit)->value() ==
          least);
  }
}

TEST_CASE(
    "a variant is made once, and half of alike micro-batches is all of them") {
  Grid grid(StepsOf(Mlp, 8), {});
  Variant* const one = grid.Get(1, {.halves = 1}).value();
  CHECK(grid.Get(1, {.halves = 1}).value() == one);
  CHECK(grid.Get(1, {.halves = 2}).value() != one);
  CHECK(grid.Get(2, {.halves = 1}).value() ==
        grid.Get(2, {.halves = 2}).value());
}

TEST_CASE("nothing within the budget is no error, and the smallest fits") {
  Grid grid(StepsOf(Mlp, 64), {});
  const MemoryOptimizations optimizations = {.micro_batches = {1, 2, 8}};
  const auto need = grid.Smallest(optimizations);
  REQUIRE_MESSAGE(need.ok(), need.error().message);
  const auto fits = grid.Cheapest(need->bytes, optimizations);
  REQUIRE_MESSAGE(fits.ok(), fits.error().message);
  REQUIRE(fits->has_value());
  CHECK((*fits)->plan.arena_bytes() <= need->bytes);
  const auto none = grid.Cheapest(need->bytes - 1, optimizations);
  REQUIRE_MESSAGE(none.ok(), none.error().message);
  CHECK_FALSE(none->has_value());
}

}  // namespace
}  // namespace stowage::fit
