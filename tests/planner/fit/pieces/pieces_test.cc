// Pieces of a batch and recomputation, chosen together for a budget.

#include "planner/fit/pieces/pieces.h"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "nn/gpt.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "planner/plan_memory.h"
#include "planner/fit/recompute/rehearsal.h"
#include "planner/validate_plan.h"
#include "tests/support/instances.h"

namespace stowage::fit {
namespace {

using testing::Instances;

Graph Gpt(int64_t batch) {
  const GptConfig config{.name = "tiny",
                         .layers = 2,
                         .heads = 2,
                         .width = 16,
                         .vocabulary = 11,
                         .max_seq = 64};
  auto graph =
      BuildGpt(config, ModelPurpose::kTrain, {.batch = batch, .seq = 64});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

// Steps of a model on `batch` examples, of pieces as equal as can be.
PieceBuilder StepsOf(const std::function<Graph(int64_t)>& model,
                     int64_t batch) {
  return [model, batch](int64_t pieces,
                        Sampling sampling) -> Result<PiecedStep> {
    const Graph whole = model(batch);
    if (pieces == 1) {
      STOWAGE_ASSIGN_OR_RETURN(Graph step, BuildTrainStep(whole, "loss"));
      return PiecedStep{.graph = std::move(step)};
    }
    const Graph large = model((batch + pieces - 1) / pieces);
    const Graph small = model(batch / pieces);
    std::vector<const Graph*> graphs;
    for (int64_t p = 0; p < pieces; ++p) {
      graphs.push_back(p < batch % pieces ? &large : &small);
    }
    STOWAGE_ASSIGN_OR_RETURN(
        MicroBatchedStep step,
        BuildMicroBatchedStep(
            whole, graphs, "loss", {},
            sampling == Sampling::kAll ? Pieces::kAll : Pieces::kOneOfAKind));
    return PiecedStep{std::move(step.graph), std::move(step.begins),
                      std::move(step.counts)};
  };
}

PieceBuilder GptSteps(int64_t batch) { return StepsOf(Gpt, batch); }

PiecedStep Build(int64_t batch, int64_t pieces, Sampling sampling) {
  Result<PiecedStep> step = GptSteps(batch)(pieces, sampling);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

Bytes ArenaOf(const Graph& graph) {
  const Result<Plan> plan = PlanMemory(graph);
  REQUIRE(plan.ok());
  return plan->arena_bytes();
}

TEST_CASE(
    "a sample has each kind of piece once, and needs what the step needs") {
  struct Case {
    int64_t batch, pieces;
    std::vector<int64_t> counts;
  };
  for (const Case& c : {Case{6, 2, {1, 1}}, Case{6, 6, {1, 4, 1}},
                        Case{8, 5, {1, 2, 1, 1}}, Case{9, 4, {1, 2, 1}}}) {
    CAPTURE(c.batch);
    CAPTURE(c.pieces);
    const PiecedStep sample = Build(c.batch, c.pieces, Sampling::kOneOfAKind);
    const PiecedStep step = Build(c.batch, c.pieces, Sampling::kAll);
    CHECK(sample.counts == c.counts);
    CHECK(sample.begins.size() == c.counts.size());
    CHECK(step.counts ==
          std::vector<int64_t>(static_cast<size_t>(c.pieces), 1));
    CHECK(step.begins.size() == static_cast<size_t>(c.pieces));
    CHECK(ArenaOf(sample.graph) == ArenaOf(step.graph));
  }
}

TEST_CASE("what is chosen for a sample is done in every piece alike") {
  const PiecedStep sample = Build(8, 5, Sampling::kOneOfAKind);
  const PiecedStep step = Build(8, 5, Sampling::kAll);
  Rehearsal of_sample(sample.graph, {});
  std::vector<Fate> fates = of_sample.AsGiven();
  for (const ValueId id : of_sample.candidates()) {
    if (of_sample.is_saved(id)) fates[of_sample.first_gap(id)] = Fate::kRemade;
  }
  REQUIRE(of_sample.Run(fates));
  const Result<Script> script = StretchScript(sample, of_sample.script(), step);
  REQUIRE_MESSAGE(script.ok(), script.error().message);
  Rehearsal of_step(step.graph, {});
  REQUIRE(of_step.Run(*script));
  CHECK(of_step.peak() == of_sample.peak());
  // By hand: every node again as often as there are pieces like its own.
  double again = 0;
  for (const Rerun& rerun : of_sample.script()) {
    size_t piece = 0;
    while (piece + 1 < sample.begins.size() &&
           sample.begins[piece + 1] <= rerun.node) {
      ++piece;
    }
    again += static_cast<double>(sample.counts[piece]) *
             NodeFlops(sample.graph, sample.graph.node(rerun.node));
  }
  CHECK(of_step.extra_cost() == doctest::Approx(again));

  // A step whose pieces the sample does not have.
  const PiecedStep other = Build(10, 5, Sampling::kAll);
  const Result<Script> none = StretchScript(sample, of_sample.script(), other);
  REQUIRE(!none.ok());
  CHECK(none.error().message.find("has a piece, number 5, that is like none") !=
        std::string::npos);

  // A node of the first piece again, for one of the second.
  const Rerun across = {.stage = sample.begins[1] + 5,
                        .node = of_sample.script().front().node};
  REQUIRE(across.node < sample.begins[1]);
  const Result<Script> mixed = StretchScript(sample, {across}, step);
  REQUIRE(!mixed.ok());
  CHECK(mixed.error().message.find(
            "runs a node of one piece again for another") != std::string::npos);
}

TEST_CASE("pieces and recomputation together reach what neither does alone") {
  MicroBatchPlanner alone({1}, GptSteps(8), {});
  MicroBatchPlanner any({1, 2, 4, 8}, GptSteps(8), {});
  const auto least = [](MicroBatchPlanner& planner, Recompute recompute) {
    const Result<Bytes> bytes = planner.SmallestBudget(recompute);
    REQUIRE_MESSAGE(bytes.ok(), bytes.error().message);
    return *bytes;
  };
  const Bytes together = least(any, Recompute::kAuto);
  CHECK(together < least(any, Recompute::kNone));
  CHECK(together < least(alone, Recompute::kAuto));
  CHECK(least(any, Recompute::kNone) < least(alone, Recompute::kNone));

  const Result<MicroBatchedPlan> plan = any.PlanFor(together);
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  CHECK(plan->pieces > 1);
  CHECK(plan->made.plan.arena_bytes() <= together);
  CHECK(plan->made.recomputed_nodes > 0);
  CHECK(ValidatePlan(plan->made.graph, plan->made.plan).empty());

  const Result<MicroBatchedPlan> refused = any.PlanFor(together - 1);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
  CHECK(refused.error().message.find(StrCat("the batch in ", plan->pieces,
                                            " pieces")) != std::string::npos);
}

TEST_CASE("what needs the least is found, be it few pieces or many") {
  const auto mlp = [](int64_t batch) {
    return *BuildModel("mlp", ModelPurpose::kTrain, {.batch = batch});
  };
  // Of a small batch the sums of gradients are more than its values.
  struct Case {
    int64_t batch, wins;
  };
  for (const Case c : {Case{4, 1}, Case{2048, 4}}) {
    CAPTURE(c.batch);
    const std::vector<int64_t> all = {1, 2, 4};
    MicroBatchPlanner planner(all, StepsOf(mlp, c.batch), {});
    for (const Recompute recompute : {Recompute::kNone, Recompute::kAuto}) {
      std::map<Bytes, int64_t> pieces_by_need;
      for (const int64_t pieces : all) {
        const auto bytes = planner.SmallestBudget(recompute, pieces);
        REQUIRE_MESSAGE(bytes.ok(), bytes.error().message);
        pieces_by_need.emplace(*bytes, pieces);
      }
      const auto [least, pieces] = *pieces_by_need.begin();
      CHECK(pieces == c.wins);
      CHECK(*planner.SmallestBudget(recompute) == least);
      CHECK(*planner.SmallestBudgetWithin(least, recompute) == least);
      CHECK_FALSE(
          planner.SmallestBudgetWithin(least - 1, recompute)->has_value());
    }
  }
}

TEST_CASE("a larger budget never costs more, pieces or not") {
  MicroBatchPlanner planner({1, 2, 4, 8}, GptSteps(8), {});
  const Bytes given = ArenaOf(Build(8, 1, Sampling::kAll).graph);
  const Result<Bytes> smallest = planner.SmallestBudget(Recompute::kAuto);
  REQUIRE(smallest.ok());
  double last = std::numeric_limits<double>::infinity();
  const int steps = Instances(12);
  for (int k = 0; k <= steps; ++k) {
    const Bytes budget = *smallest + (given - *smallest) * k / steps;
    const Result<MicroBatchedPlan> plan = planner.PlanFor(budget);
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    CHECK(plan->made.plan.arena_bytes() <= budget);
    const double cost = plan->cost + plan->made.extra_cost;
    CHECK(cost <= last);
    // Counted on the step that will run, not on its sample.
    CHECK(GraphFlops(plan->made.graph) == doctest::Approx(cost));
    last = cost;
  }
  CHECK(last == doctest::Approx(GraphFlops(Build(8, 1, Sampling::kAll).graph)));
}

TEST_CASE("the frontier falls in bytes as it rises in cost, above the bound") {
  MicroBatchPlanner planner({1, 8}, GptSteps(8), {});
  const Result<std::vector<MicroBatchedPoint>> frontier = planner.Frontier();
  REQUIRE(frontier.ok());
  REQUIRE(frontier->size() > 2);
  CHECK(frontier->front().pieces == 1);
  CHECK(frontier->front().point.extra_cost == 0);
  CHECK(frontier->back().pieces == 8);
  CHECK(frontier->back().point.arena ==
        *planner.SmallestBudget(Recompute::kAuto));
  for (size_t k = 0; k < frontier->size(); ++k) {
    const FrontierPoint& point = (*frontier)[k].point;
    CHECK(point.least_extra_cost <= point.extra_cost * (1 + 1e-9) + 1e-9);
    CHECK(point.extra_flops == doctest::Approx(point.extra_cost));
    if (k == 0) continue;
    CHECK(point.arena < (*frontier)[k - 1].point.arena);
    CHECK(point.extra_cost > (*frontier)[k - 1].point.extra_cost);
  }
}

TEST_CASE("a name means the value in every piece") {
  RecomputeOptions options;
  options.always_remade = {"h.0.mlp.gelu"};
  MicroBatchPlanner planner({4}, GptSteps(8), {}, options);
  const Result<MicroBatchedPlan> plan = planner.PlanFor(std::nullopt);
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  int again = 0;
  for (const ValueInfo& value : plan->made.graph.values()) {
    again += value.name.starts_with("h.0.mlp.gelu/") &&
             value.name.ends_with("~recomputed");
  }
  CHECK(again == 4);
  // Told once, of all pieces.
  int told = 0;
  double flops = 0;
  for (const Remade& remade : plan->made.remade) {
    told += remade.name == "h.0.mlp.gelu";
    if (remade.name == "h.0.mlp.gelu") CHECK(remade.times == 4);
    flops += remade.flops;
  }
  CHECK(told == 1);
  CHECK(flops == doctest::Approx(plan->made.extra_flops));

  options.always_remade = {"h.9.mlp.gelu"};
  const Result<MicroBatchedPlan> unknown =
      MicroBatchPlanner({4}, GptSteps(8), {}, options).PlanFor(std::nullopt);
  REQUIRE(!unknown.ok());
  CHECK(unknown.error().code == ErrorCode::kNotFound);
}

}  // namespace
}  // namespace stowage::fit
