#include "planner/fit/micro_batches/micro_batches.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "nn/models.h"
#include "planner/fit/recompute/simulation.h"
#include "planner/plan_memory.h"
#include "tests/planner/fit/steps.h"

namespace stowage::fit {
namespace {

using testing::StepsOf;
using testing::TinyGpt;

SampledStep Build(int64_t batch, int64_t micro_batches, Sampling sampling) {
  Result<SampledStep> step = StepsOf(TinyGpt, batch)(micro_batches, sampling);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

Bytes ArenaOf(const Graph& graph) {
  const Result<Plan> plan = PlanMemory(graph);
  REQUIRE(plan.ok());
  return plan->arena_bytes();
}

TEST_CASE(
    "a sample has each kind of micro-batch once, and needs what the step "
    "needs") {
  struct Case {
    int64_t batch, micro_batches;
    std::vector<int64_t> counts;
  };
  for (const Case& c : {Case{6, 2, {1, 1}}, Case{6, 6, {1, 4, 1}},
                        Case{8, 5, {1, 2, 1, 1}}, Case{9, 4, {1, 2, 1}}}) {
    CAPTURE(c.batch);
    CAPTURE(c.micro_batches);
    const SampledStep sample =
        Build(c.batch, c.micro_batches, Sampling::kOneOfAKind);
    const SampledStep step = Build(c.batch, c.micro_batches, Sampling::kAll);
    CHECK(sample.counts == c.counts);
    CHECK(sample.begins.size() == c.counts.size());
    CHECK(step.counts ==
          std::vector<int64_t>(static_cast<size_t>(c.micro_batches), 1));
    CHECK(step.begins.size() == static_cast<size_t>(c.micro_batches));
    CHECK(ArenaOf(sample.graph) == ArenaOf(step.graph));
  }
}

TEST_CASE(
    "of three equal micro-batches or more one stands for all, and needs as "
    "much") {
  for (const int64_t micro_batches : {3, 6}) {
    CAPTURE(micro_batches);
    const SampledStep sample = Build(6, micro_batches, Sampling::kOneForAll);
    const SampledStep step = Build(6, micro_batches, Sampling::kAll);
    REQUIRE(sample.loop);
    CHECK(sample.counts == std::vector<int64_t>{micro_batches, 1});
    CHECK(sample.loop->cut == std::vector<std::string>{"targets", "tokens"});
    const auto graph =
        RepeatMicroBatch(sample.graph, *sample.loop, sample.counts.front());
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    CHECK(ArenaOf(sample.graph) == ArenaOf(step.graph));
    CHECK(ArenaOf(*graph) == ArenaOf(step.graph));
    // An addition more for each sum: the first micro-batch's.
    CHECK(GraphFlops(*graph) >= GraphFlops(step.graph));
    CHECK(GraphFlops(*graph) < 1.05 * GraphFlops(step.graph));
    CHECK(FlopsOf(sample) == doctest::Approx(GraphFlops(*graph)));
  }
}

TEST_CASE("two micro-batches, and uneven ones, stand one after the other") {
  CHECK_FALSE(Build(6, 2, Sampling::kOneForAll).loop);
  CHECK_FALSE(Build(8, 3, Sampling::kOneForAll).loop);
}

TEST_CASE("micro-batches that draw dropouts stand one after the other") {
  const auto model = [](int64_t batch) {
    return BuildModel("gpt-nano", ModelPurpose::kTrain,
                      {.batch = batch, .seq = 16, .dropout = 0.1});
  };
  const auto build = StepsOf([&](int64_t n) { return model(n).value(); }, 6);
  const Result<SampledStep> sample = build(3, Sampling::kOneForAll);
  REQUIRE_MESSAGE(sample.ok(), sample.error().message);
  CHECK_FALSE(sample->loop);
}

TEST_CASE("what is chosen for a sample is done in every micro-batch alike") {
  const SampledStep sample = Build(8, 5, Sampling::kOneOfAKind);
  const SampledStep step = Build(8, 5, Sampling::kAll);
  Simulation of_sample(sample.graph, {});
  std::vector<Fate> fates = of_sample.AsGiven();
  for (const ValueId id : of_sample.candidates()) {
    if (of_sample.is_saved(id))
      fates[of_sample.first_gap(id)] = Fate::kRecomputed;
  }
  REQUIRE(of_sample.Run(fates));
  const Result<Script> script = StretchScript(sample, of_sample.script(), step);
  REQUIRE_MESSAGE(script.ok(), script.error().message);
  Simulation of_step(step.graph, {});
  REQUIRE(of_step.Run(*script));
  CHECK(of_step.peak() == of_sample.peak());
  // By hand: every node again as often as there are micro-batches like its own.
  double again = 0;
  for (const Rerun& rerun : of_sample.script()) {
    size_t micro_batch = 0;
    while (micro_batch + 1 < sample.begins.size() &&
           sample.begins[micro_batch + 1] <= rerun.node) {
      ++micro_batch;
    }
    again += static_cast<double>(sample.counts[micro_batch]) *
             NodeFlops(sample.graph, sample.graph.node(rerun.node));
  }
  CHECK(of_step.extra_cost() == doctest::Approx(again));

  // A step whose micro-batches the sample does not have.
  const SampledStep other = Build(10, 5, Sampling::kAll);
  const Result<Script> none = StretchScript(sample, of_sample.script(), other);
  REQUIRE(!none.ok());
  CHECK(none.error().message.find(
            "has a micro-batch, number 5, that is like none") !=
        std::string::npos);

  // A node of the first micro-batch again, for one of the second.
  const Rerun across = {.stage = sample.begins[1] + 5,
                        .node = of_sample.script().front().node};
  REQUIRE(across.node < sample.begins[1]);
  const Result<Script> mixed = StretchScript(sample, {across}, step);
  REQUIRE(!mixed.ok());
  CHECK(mixed.error().message.find(
            "runs a node of one micro-batch again for another") !=
        std::string::npos);
}

TEST_CASE("a graph by itself is a step of one micro-batch") {
  const Graph graph = TinyGpt(2);
  const Result<SampledStep> step = OfGraph(graph)(1, Sampling::kOneOfAKind);
  REQUIRE(step.ok());
  CHECK(Equal(step->graph, graph));
  CHECK(IsWhole(*step));
  CHECK(FlopsOf(*step) == GraphFlops(graph));
}

}  // namespace
}  // namespace stowage::fit
