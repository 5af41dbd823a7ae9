#include "planner/fit/pieces/pieces.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "nn/models.h"
#include "planner/fit/recompute/rehearsal.h"
#include "planner/plan_memory.h"
#include "tests/planner/fit/steps.h"

namespace stowage::fit {
namespace {

using testing::StepsOf;
using testing::TinyGpt;

PiecedStep Build(int64_t batch, int64_t pieces, Sampling sampling) {
  Result<PiecedStep> step = StepsOf(TinyGpt, batch)(pieces, sampling);
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

TEST_CASE(
    "of three equal pieces or more one stands for all, and needs as much") {
  for (const int64_t pieces : {3, 6}) {
    CAPTURE(pieces);
    const PiecedStep sample = Build(6, pieces, Sampling::kOneForAll);
    const PiecedStep step = Build(6, pieces, Sampling::kAll);
    REQUIRE(sample.loop);
    CHECK(sample.counts == std::vector<int64_t>{pieces, 1});
    CHECK(sample.loop->cut == std::vector<std::string>{"targets", "tokens"});
    const auto graph =
        RepeatPiece(sample.graph, *sample.loop, sample.counts.front());
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    CHECK(ArenaOf(sample.graph) == ArenaOf(step.graph));
    CHECK(ArenaOf(*graph) == ArenaOf(step.graph));
    // An addition more for each sum: the first piece's.
    CHECK(GraphFlops(*graph) >= GraphFlops(step.graph));
    CHECK(GraphFlops(*graph) < 1.05 * GraphFlops(step.graph));
    CHECK(FlopsOf(sample) == doctest::Approx(GraphFlops(*graph)));
  }
}

TEST_CASE("two pieces, and uneven ones, stand one after the other") {
  CHECK_FALSE(Build(6, 2, Sampling::kOneForAll).loop);
  CHECK_FALSE(Build(8, 3, Sampling::kOneForAll).loop);
}

TEST_CASE("pieces that draw dropouts stand one after the other") {
  const auto model = [](int64_t batch) {
    return BuildModel("gpt-nano", ModelPurpose::kTrain,
                      {.batch = batch, .seq = 16, .dropout = 0.1});
  };
  const auto build = StepsOf([&](int64_t n) { return model(n).value(); }, 6);
  const Result<PiecedStep> sample = build(3, Sampling::kOneForAll);
  REQUIRE_MESSAGE(sample.ok(), sample.error().message);
  CHECK_FALSE(sample->loop);
}

TEST_CASE("what is chosen for a sample is done in every piece alike") {
  const PiecedStep sample = Build(8, 5, Sampling::kOneOfAKind);
  const PiecedStep step = Build(8, 5, Sampling::kAll);
  Rehearsal of_sample(sample.graph, {});
  std::vector<Fate> fates = of_sample.AsGiven();
  for (const ValueId id : of_sample.candidates()) {
    if (of_sample.is_saved(id))
      fates[of_sample.first_gap(id)] = Fate::kRecomputed;
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

TEST_CASE("a graph by itself is a step of one piece") {
  const Graph graph = TinyGpt(2);
  const Result<PiecedStep> step = OfGraph(graph)(1, Sampling::kOneOfAKind);
  REQUIRE(step.ok());
  CHECK(Equal(step->graph, graph));
  CHECK(IsWhole(*step));
  CHECK(FlopsOf(*step) == GraphFlops(graph));
}

}  // namespace
}  // namespace stowage::fit
