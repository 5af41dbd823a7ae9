#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/instances.h"
#include "tests/support/offload_values_in_bodies.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/random_graph.h"
#include "train/plan_cache.h"

namespace stowage {
namespace {

using testing::Instances;
using testing::MakeRandomControlFlow;
using testing::MakeRandomStep;
using testing::OffloadValuesInBodies;
using testing::Rng;
using testing::StepsOf;
using testing::TinyGpt;

// Some scratch, so that there are workspace slots and a reserve.
PlanOptions WithScratch() {
  PlanOptions options;
  options.device.workspace = [](const Graph& graph, const Node& node) {
    return node.op == OpKind::kMatMul
               ? graph.value(node.results[0]).type.bytes() / 2 + 4
               : 0;
  };
  options.device.reserve = [](const Graph&, Bytes) { return Bytes{700}; };
  return options;
}

// Everything that may be done to a step is done to this one.
const FittedStep& AllIsDone() {
  static const FittedStep step = [] {
    MemoryOptimizations optimizations = {.micro_batches = {2},
                                         .order = NodeOrder::kMemory};
    StepFitter fitter(
        StepsOf(TinyGpt, 4),
        {.plan = WithScratch(), .optimizations = optimizations, .effort = 0.1});
    const Result<Bytes> least = fitter.SmallestBudget();
    REQUIRE_MESSAGE(least.ok(), least.error().message);
    Result<FittedStep> fitted = fitter.Fit(*least);
    REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
    return *std::move(fitted);
  }();
  return step;
}

// A new field does not compile here: it has to be written and compared, too.
auto FieldsOf(const PlannedBuffer& buffer) {
  const auto& [name, region, offset, size, lower, upper, within] = buffer;
  return std::tie(name, region, offset, size, lower, upper, within);
}
auto FieldsOf(const Plan& plan) {
  const auto& [graph_name, fingerprint, alignment, buffers, buffer_of,
               workspace_of, host_workspace_of, reserve, regions, bodies,
               lower_bound, no_reuse, caching_allocator, peak_time, views,
               in_place, packer, order, optimal] = plan;
  return std::tie(graph_name, fingerprint, alignment, buffer_of, workspace_of,
                  host_workspace_of, reserve, regions, lower_bound, no_reuse,
                  caching_allocator, peak_time, views, in_place, packer, order,
                  optimal);
}
auto FieldsOf(const Price& price) {
  const auto& [micro_batches, host, tile_rows, recomputed_nodes, extra_flops,
               extra_percent, extra_cost, least_extra_cost] = price;
  return std::tie(micro_batches, host.values, host.bytes_per_step, tile_rows,
                  recomputed_nodes, extra_flops, extra_percent, extra_cost,
                  least_extra_cost);
}
auto FieldsOf(const RecomputedNode& recomputed) {
  const auto& [name, freed, flops, times] = recomputed;
  return std::tie(name, freed, flops, times);
}

template <typename T>
void CheckSame(const std::vector<T>& a, const std::vector<T>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK((FieldsOf(a[i]) == FieldsOf(b[i])));
  }
}

void CheckSameBodies(const Plan& a, const Plan& b) {
  REQUIRE(a.bodies.size() == b.bodies.size());
  for (size_t i = 0; i < a.bodies.size(); ++i) {
    CAPTURE(i);
    const auto& [node, plan, second_of] = a.bodies[i];
    CHECK(node == b.bodies[i].node);
    CHECK((FieldsOf(plan) == FieldsOf(b.bodies[i].plan)));
    CheckSame(plan.buffers, b.bodies[i].plan.buffers);
    CHECK(second_of == b.bodies[i].second_of);
    CheckSameBodies(plan, b.bodies[i].plan);
  }
}

void CheckReadsBack(const FittedStep& step) {
  const Result<FittedStep> again = FittedStepFromBytes(FittedStepToBytes(step));
  REQUIRE_MESSAGE(again.ok(), again.error().message);
  const auto& [graph, plan, price, flops, cost, recomputed, order_bound,
               passes] = *again;
  CHECK(Equal(graph, step.graph));
  CHECK((FieldsOf(plan) == FieldsOf(step.plan)));
  CheckSame(plan.buffers, step.plan.buffers);
  CheckSameBodies(plan, step.plan);
  CHECK((FieldsOf(price) == FieldsOf(step.price)));
  CHECK(flops == step.flops);
  CHECK(cost == step.cost);
  CheckSame(recomputed, step.recomputed);
  CHECK(order_bound == step.order_bound);
  CHECK(passes.empty());
}

std::string ErrorOf(const FittedStep& step) {
  const Result<FittedStep> read = FittedStepFromBytes(FittedStepToBytes(step));
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == ErrorCode::kInvalidArgument);
  return read.error().message;
}

TEST_CASE("a step with all that may be done to it reads back equal") {
  const FittedStep& step = AllIsDone();
  // It is what it should be.
  CHECK(step.price.micro_batches > 1);
  CHECK(step.price.host.values > 0);
  CHECK(step.order_bound.has_value());
  CHECK(step.plan.reserve >= 0);
  CheckReadsBack(step);
}

TEST_CASE("a step with what runs again reads back equal") {
  StepFitter fitter(StepsOf(TinyGpt, 4),
                    {.plan = WithScratch(),
                     .optimizations = {.offload = OffloadChoice::kNone},
                     .effort = 0.1});
  const Result<Bytes> least = fitter.SmallestBudget();
  REQUIRE(least.ok());
  const Result<FittedStep> step = fitter.Fit(*least);
  REQUIRE(step.ok());
  CHECK_FALSE(step->recomputed.empty());
  CHECK(step->price.recomputed_nodes > 0);
  CHECK_FALSE(step->order_bound.has_value());
  CheckReadsBack(*step);
}

TEST_CASE("steps with loops and branches read back equal, bodies and all") {
  for (uint64_t seed = 0; seed < Instances<uint64_t>(40); ++seed) {
    INFO("seed ", seed);
    FittedStep step;
    step.graph = MakeRandomControlFlow(seed);
    step.plan = *PlanMemory(step.graph, {.alignment = 16});
    CheckReadsBack(step);
    step.graph = OffloadValuesInBodies(step.graph, seed);
    step.plan = *PlanMemory(step.graph, {.alignment = 16});
    CheckReadsBack(step);
  }
}

TEST_CASE("random steps as they are read back equal") {
  for (uint64_t seed = 0; seed < Instances<uint64_t>(40); ++seed) {
    INFO("seed ", seed);
    const Graph graph = MakeRandomStep(seed);
    StepFitter fitter(OfGraph(graph), {.plan = WithScratch()});
    const Result<FittedStep> step = fitter.Fit({});
    REQUIRE(step.ok());
    CheckReadsBack(*step);
  }
}

TEST_CASE("a plan in which two that live at once share bytes is refused") {
  FittedStep step = AllIsDone();
  const std::vector<int32_t> live = LiveAt(step.plan, step.plan.peak_time);
  std::vector<PlannedBuffer*> activations;
  for (const int32_t index : live) {
    PlannedBuffer& buffer = step.plan.buffers[static_cast<size_t>(index)];
    if (buffer.region == Region::kActivations) activations.push_back(&buffer);
  }
  REQUIRE(activations.size() > 1);
  activations[1]->offset = activations[0]->offset;
  CHECK(ErrorOf(step).starts_with(
      "[plan cache] an entry is no fitted step: [validate] "));
}

TEST_CASE("a plan of slots that are not aligned is refused") {
  FittedStep step = AllIsDone();
  step.plan.buffers.front().offset += 1;
  CHECK(ErrorOf(step).find("[validate] slot ") != std::string::npos);
}

TEST_CASE("a plan for a graph of other sizes is refused") {
  FittedStep step = AllIsDone();
  step.plan.buffer_of.pop_back();
  CHECK(ErrorOf(step).find("indices; the graph needs") != std::string::npos);
}

TEST_CASE("figures out of their ranges are refused") {
  const auto error = [](auto change) {
    FittedStep step = AllIsDone();
    change(&step);
    return ErrorOf(step);
  };
  const auto says = [](const std::string& text, std::string_view part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  says(error([](FittedStep* s) { s->plan.buffer_of[3] = 1 << 30; }),
       "a buffer's index is 1073741824; expected 0 to ");
  says(error([](FittedStep* s) { s->plan.workspace_of[0] = -2; }),
       "a buffer's index is -2; expected -1 to ");
  says(error([](FittedStep* s) { s->plan.alignment = 0; }),
       "the alignment is 0; expected 1 to ");
  says(error([](FittedStep* s) { s->plan.regions.state = -8; }),
       "a region is -8; expected 0 to ");
  says(error([](FittedStep* s) {
         s->plan.buffers[0].offset = int64_t{1} << 62;
         s->plan.buffers[0].size = int64_t{1} << 62;
       }),
       "do not fit 64 bits");
  says(error([](FittedStep* s) { s->plan.buffers[0].upper = 1 << 30; }),
       "a death is 1073741824; expected ");
  says(error([](FittedStep* s) { s->price.micro_batches = 0; }),
       "the micro-batches is 0; expected 1 to ");
}

TEST_CASE("no damaged bytes crash, and none give a plan that breaks a law") {
  const std::string bytes = FittedStepToBytes(AllIsDone());
  CHECK_FALSE(FittedStepFromBytes("").ok());
  for (int seed = 0; seed < Instances(300); ++seed) {
    INFO("seed ", seed);
    Rng rng(static_cast<uint64_t>(seed));
    std::string damaged = bytes;
    damaged[static_cast<size_t>(
        rng.Below(static_cast<int64_t>(bytes.size())))] =
        static_cast<char>(rng.Below(256));
    const Result<FittedStep> read = FittedStepFromBytes(damaged);
    if (read.ok()) {
      CheckReadsBack(*read);
    } else {
      CHECK(read.error().message.starts_with("[plan cache] "));
    }
    damaged.resize(
        static_cast<size_t>(rng.Below(static_cast<int64_t>(bytes.size()))));
    CHECK_FALSE(FittedStepFromBytes(damaged).ok());
  }
}

}  // namespace
}  // namespace stowage
