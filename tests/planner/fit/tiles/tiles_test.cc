#include "planner/fit/tiles/tiles.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/plan_memory.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using fit::TileLogits;
using testing::Differences;
using testing::RunSteps;

// The step of a language model whose logits are its largest value: 256 rows at a time.
Graph StepOfTokens(int64_t vocabulary = 2048) {
  GraphBuilder g("tokens");
  const Value ids = g.Input("ids", DType::kI32, {2, 128});
  const Value labels = g.Input("labels", DType::kI32, {2, 128});
  const Value table =
      g.Param("table", DType::kF32, {vocabulary, 16}, Init::Normal(0.1));
  const Value w = g.Param("w", DType::kF32, {16, 16}, Init::Normal(0.25));
  const Value x = Tanh(MatMul(Gather(table, ids), w));
  g.Output("loss", g.Name("loss", LinearCrossEntropy(x, table, labels, 256)));
  return *BuildTrainStep(*g.Finish(), "loss");
}

int64_t ChunkOf(const Graph& graph) {
  int64_t chunk = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op == OpKind::kLinearCrossEntropyGrad) {
      chunk = node.attrs.Int("chunk");
    }
  }
  return chunk;
}

TEST_CASE("tiles are divided down to 16 rows, and what they add is counted") {
  const Graph step = StepOfTokens();
  const auto as_it_is = TileLogits(step, 1);
  REQUIRE(as_it_is.ok());
  CHECK(as_it_is->rows == 0);
  CHECK(as_it_is->extra_traffic == 0);
  CHECK(Equal(as_it_is->graph, step));
  const auto four = TileLogits(step, 4);
  REQUIRE(four.ok());
  CHECK(four->rows == 64);
  CHECK(ChunkOf(four->graph) == 64);
  // Three more tiles read the table of 2048 x 16 floats, read its gradient and write it.
  CHECK(four->extra_traffic == 3 * 3 * 2048 * 16 * 4);
  const auto many = TileLogits(step, 1000);
  REQUIRE(many.ok());
  CHECK(many->rows == 16);
  CHECK(ChunkOf(many->graph) == 16);
  const auto again = TileLogits(many->graph, 4);
  REQUIRE(again.ok());
  CHECK(again->rows == 0);
}

TEST_CASE("smaller tiles change no bit of a step") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const Graph step = StepOfTokens();
  const auto given = RunSteps(step, *cpu, {.steps = 3});
  for (const int64_t parts : {4, 16}) {
    const auto tiled = TileLogits(step, parts);
    REQUIRE(tiled.ok());
    const auto run = RunSteps(tiled->graph, *cpu, {.steps = 3, .poison = true});
    CHECK(Differences(run, given) == "");
  }
}

TEST_CASE("a budget takes smaller tiles where that is the cheapest that fits") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const Graph step = StepOfTokens();
  FitOptions options{.plan = {.device = cpu->Needs()}};
  StepFitter fitter(OfGraph(step), options);
  options.optimizations.tiles = Tiles::kNone;
  StepFitter without(OfGraph(step), options);
  const Bytes arena = fitter.AsGiven()->plan.arena_bytes();
  const Bytes smallest = *fitter.SmallestBudget();
  const Bytes smallest_without = *without.SmallestBudget();
  // 240 of 256 rows of 2048 floats less.
  CHECK(smallest < smallest_without - 1'500'000);

  double cost = std::numeric_limits<double>::infinity();
  int64_t tiled = 0, as_given = 0;
  for (int k = 0; k <= 20; ++k) {
    const Bytes budget = smallest + (arena - smallest) * k / 20;
    INFO("budget ", budget, " of ", arena);
    const auto step_in_budget = fitter.Fit(budget);
    REQUIRE_MESSAGE(step_in_budget.ok(), step_in_budget.error().message);
    CHECK(step_in_budget->plan.arena_bytes() <= budget);
    CHECK(step_in_budget->total_cost() <= cost);  // the larger, the cheaper
    cost = step_in_budget->total_cost();
    const int64_t rows = step_in_budget->price.tile_rows;
    ++(rows > 0 ? tiled : as_given);
    CHECK(ChunkOf(step_in_budget->graph) == (rows > 0 ? rows : 256));
    const auto other = without.Fit(budget);
    if (other.ok()) {
      CHECK(step_in_budget->total_cost() <= other->total_cost());
    } else {
      CHECK(budget < smallest_without);
    }
  }
  CHECK(tiled > 5);
  CHECK(as_given > 0);
  // 15 more tiles, of which each reads the table and its gradient, and writes that.
  options.optimizations = {.offload = OffloadChoice::kNone};
  StepFitter resident(OfGraph(step), options);
  const double in_tiles = resident.Fit(*resident.SmallestBudget())->cost;
  const double added = 10.0 * 15 * 3 * 2048 * 16 * 4;
  CHECK(in_tiles == doctest::Approx(resident.AsGiven()->cost + added));

  const auto refused = fitter.Fit(smallest / 2);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find(
            " with these and smaller tiles of logits") != std::string::npos);
  CHECK_FALSE(without.Fit(smallest).ok());

  const auto frontier = fitter.Frontier();
  REQUIRE(frontier.ok());
  CHECK(frontier->front().price.tile_rows == 0);
  CHECK(frontier->back().price.tile_rows == 16);
  for (size_t k = 1; k < frontier->size(); ++k) {
    CHECK((*frontier)[k].arena < (*frontier)[k - 1].arena);
    CHECK((*frontier)[k].price.extra_cost >=
          (*frontier)[k - 1].price.extra_cost);
  }
}

}  // namespace
}  // namespace stowage
