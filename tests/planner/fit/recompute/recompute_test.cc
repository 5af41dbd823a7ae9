#include "planner/fit/recompute/recompute.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/micro_batches.h"
#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/fit/recompute/exact.h"
#include "planner/fit/recompute/simulation.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/support/instances.h"

namespace stowage::fit {
namespace {

using testing::Instances;
using testing::TakesAllInstances;

Graph StepOf(std::string_view model, const ModelOptions& options) {
  const auto forward = BuildModel(model, ModelPurpose::kTrain, options);
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  auto step = BuildTrainStep(*forward, "loss");
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return std::move(*step);
}

Graph NanoStep() { return StepOf("gpt-nano", {.batch = 2, .seq = 32}); }

// The step of a batch of 8, in equal micro-batches.
Graph MicroBatchesOfNano(int64_t micro_batches) {
  const auto build = [](int64_t batch) {
    return BuildModel("gpt-nano", ModelPurpose::kTrain,
                      {.batch = batch, .seq = 16})
        .value();
  };
  const Graph micro_batch = build(8 / micro_batches);
  const std::vector<const Graph*> all(static_cast<size_t>(micro_batches),
                                      &micro_batch);
  auto step = BuildMicroBatchedStep(build(8), all, "loss");
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return std::move(step->graph);
}

// Of a step in one micro-batch, of which nothing is moved. Under the sanitizers it
// searches less, but in the same way.
StepFitter FitterOf(const Graph& step, FitOptions options = {}) {
  options.optimizations.offload = OffloadChoice::kNone;
  if (!TakesAllInstances()) options.effort = 0.1;
  return StepFitter(OfGraph(step), std::move(options));
}

Bytes ArenaOf(const Graph& graph) { return PlanMemory(graph)->arena_bytes(); }

TEST_CASE("what fits is not touched") {
  const Graph step = NanoStep();
  for (const std::optional<Bytes> budget :
       {std::optional<Bytes>(), std::optional<Bytes>(ArenaOf(step))}) {
    const auto made = FitterOf(step).Fit(budget);
    REQUIRE(made.ok());
    CHECK(Equal(made->graph, step));
    CHECK(made->price.recomputed_nodes == 0);
    CHECK(made->price.extra_flops == 0);
    CHECK(made->recomputed.empty());
  }
}

// Every node that is no view costs one.
std::vector<double> CostsOfOne(const Graph& graph) {
  std::vector<double> costs;
  for (const Node& node : graph.nodes()) {
    costs.push_back(GetOpDef(node.op).is_view() ? 0 : 1);
  }
  return costs;
}

TEST_CASE("a larger budget never costs more, and one byte too few is refused") {
  const auto check = [](const Graph& step, const CostFn& cost = {}) {
    const Bytes given = ArenaOf(step);
    StepFitter fitter = FitterOf(step, {.cost = cost});
    const auto smallest = fitter.SmallestBudget();
    REQUIRE(smallest.ok());
    double last = std::numeric_limits<double>::infinity();
    const int steps = Instances(50);
    for (int k = 0; k <= steps; ++k) {
      const Bytes budget = *smallest + (given - *smallest) * k / steps;
      const auto made = fitter.Fit(budget);
      REQUIRE_MESSAGE(made.ok(), made.error().message);
      CHECK(made->plan.arena_bytes() <= budget);
      CHECK(made->price.extra_cost <= last);
      CHECK(made->price.extra_cost ==
            (cost ? made->price.recomputed_nodes : made->price.extra_flops));
      CHECK(made->price.least_extra_cost <=
            made->price.extra_cost * (1 + 1e-9));
      CHECK(ValidatePlan(made->graph, made->plan).empty());
      last = made->price.extra_cost;
    }
    CHECK(last == 0);

    const auto refused = fitter.Fit(*smallest - 1);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
    if (*smallest == given) return;
    CHECK(refused.error().message.starts_with("[plan] budget "));
    CHECK(refused.error().message.find("; smallest budget that works: ") !=
          std::string::npos);
    CHECK(refused.error().message.ends_with(
        StrCat(", or ", FormatBytes(*smallest), " (", *smallest,
               " bytes) with recompute")));
  };
  check(StepOf("mlp", {.batch = 64}));
  check(StepOf("mlp", {.batch = 2048}));
  check(MicroBatchesOfNano(2));
  check(NanoStep(), CostsOfOne);
  if (!TakesAllInstances()) return;  // what follows takes the same paths
  check(NanoStep());
  check(StepOf("gpt-nano", {.batch = 4, .seq = 16}));
  check(StepOf("gpt2-124m", {.batch = 4, .seq = 256, .dtype = DType::kBF16}));
}

TEST_CASE("the least cost decides, whatever it counts") {
  const Graph step = NanoStep();
  StepFitter by_flops = FitterOf(step);
  StepFitter by_nodes = FitterOf(step, {.cost = CostsOfOne});
  const Bytes budget = (by_flops.SmallestBudget().value() + ArenaOf(step)) / 2;
  const auto fewest_flops = by_flops.Fit(budget);
  const auto fewest_nodes = by_nodes.Fit(budget);
  REQUIRE(fewest_flops.ok());
  REQUIRE(fewest_nodes.ok());
  CHECK(fewest_nodes->price.recomputed_nodes <
        fewest_flops->price.recomputed_nodes);
  CHECK(fewest_nodes->price.extra_flops > fewest_flops->price.extra_flops);
  // What is cheap is a share of the cost, too: one node of 100 is 1 %.
  StepFitter cheap = FitterOf(
      step,
      {.optimizations = {.recompute = Recompute::kCheap}, .cost = CostsOfOne});
  const auto made = cheap.Fit(cheap.SmallestBudget().value());
  REQUIRE(made.ok());
  CHECK(made->price.recomputed_nodes <= step.num_nodes() / 100);
}

TEST_CASE("the same step gives the same choices") {
  const Graph step = NanoStep();
  const auto first = FitterOf(step).Frontier();
  const auto second = FitterOf(step).Frontier();
  REQUIRE(first.ok());
  REQUIRE(first->size() == second->size());
  for (size_t k = 0; k < first->size(); ++k) {
    CHECK((*first)[k].arena == (*second)[k].arena);
    CHECK((*first)[k].price.extra_flops == (*second)[k].price.extra_flops);
  }
}

TEST_CASE(
    "without an optimization the refusal names what recomputation would "
    "reach") {
  const Graph step = NanoStep();
  const Bytes given = ArenaOf(step);
  StepFitter none =
      FitterOf(step, {.optimizations = {.recompute = Recompute::kNone}});
  const auto refused = none.Fit(given - 1);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find(", or ") != std::string::npos);
  CHECK(refused.error().message.ends_with(" bytes) with recompute"));
  CHECK(none.SmallestBudget().value() == given);
}

TEST_CASE("cheap stays below 1 % of the operations") {
  const Graph step = NanoStep();
  StepFitter fitter =
      FitterOf(step, {.optimizations = {.recompute = Recompute::kCheap}});
  const auto smallest = fitter.SmallestBudget();
  REQUIRE(smallest.ok());
  CHECK(*smallest < ArenaOf(step));
  CHECK(*smallest > FitterOf(step).SmallestBudget().value());
  const auto made = fitter.Fit(*smallest);
  REQUIRE(made.ok());
  CHECK(made->price.extra_flops > 0);
  CHECK(made->price.extra_percent <= 1);
  CHECK(!fitter.Fit(*smallest - 1).ok());
}

TEST_CASE("values are kept or recomputed as named") {
  const Graph step = NanoStep();
  const auto again = [&](const FittedStep& made, const char* name) {
    return made.graph.Find(StrCat(name, "~recomputed")).has_value();
  };
  // Named, a value runs again even where nothing has to.
  const auto made =
      FitterOf(step, {.optimizations = {.always_recomputed = {"h.1.mlp.gelu"}}})
          .Fit(std::nullopt);
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  CHECK(again(*made, "h.1.mlp.gelu"));
  CHECK(!again(*made, "h.0.mlp.gelu"));
  CHECK(made->price.recomputed_nodes == 1);
  REQUIRE(made->recomputed.size() == 1);
  CHECK(made->recomputed[0].name == "h.1.mlp.gelu");
  CHECK(made->recomputed[0].freed ==
        step.value(*step.Find("h.1.mlp.gelu")).type.bytes());
  CHECK(made->recomputed[0].flops == made->price.extra_flops);

  StepFitter keeping =
      FitterOf(step, {.optimizations = {.always_kept = {"h.1.mlp.gelu"}}});
  const auto smallest = keeping.SmallestBudget();
  REQUIRE(smallest.ok());
  const auto kept = keeping.Fit(*smallest);
  REQUIRE(kept.ok());
  CHECK(again(*kept, "h.0.mlp.gelu"));
  CHECK(!again(*kept, "h.1.mlp.gelu"));
}

TEST_CASE("names that cannot be decided on are errors") {
  const Graph step = NanoStep();
  const auto error = [&](const MemoryOptimizations& optimizations) {
    return FitterOf(step, {.optimizations = optimizations})
        .Fit(std::nullopt)
        .error();
  };
  CHECK(error({.always_kept = {"nobody"}}).code == ErrorCode::kNotFound);
  CHECK(error({.always_recomputed = {"wte"}})
            .message.starts_with(
                "[recompute] \"wte\" cannot be always recomputed: "));
  CHECK(error({.always_recomputed = {"loss"}}).code ==
        ErrorCode::kInvalidArgument);
  CHECK(error({.always_kept = {"h.0.ln_1"}, .always_recomputed = {"h.0.ln_1"}})
            .message.starts_with("[recompute] \"h.0.ln_1\" is to be "));
}

TEST_CASE("nothing is made again of a param that has been updated") {
  // y = relu(x w) is wanted after the update of w, which stands before it here.
  const auto graph = ParseGraph(R"(stowage-ir 1
graph "late" {
  x: f32(64, 64) = input
  w: f32(64, 64) = param
  lr: f32() = input
  p: f32(64, 64) = matmul(x, w) {transpose_a=0, transpose_b=0}
  y: f32(64, 64) = relu(p)
  s: f32(64, 64) = exp(x)
  new:w: f32(64, 64) = sgd_update(w, s, lr) {decay=0.0} @update("w")
  z: f32(64, 64) = relu_grad(y, x) @backward("y")
  output "z" = z
}
)");
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  Simulation simulation(*graph, {});
  std::vector<Fate> fates = simulation.AsGiven();
  REQUIRE(simulation.Run(fates));
  fates[simulation.first_gap(*graph->Find("y"))] = Fate::kRecomputed;
  CHECK(!simulation.Run(fates));
  REQUIRE(simulation.Run(simulation.AsGiven()));
  REQUIRE(IsSmallStep(*graph, simulation));
  int64_t effort = 1'000;
  CHECK(!CheapestScript(*graph, simulation, simulation.peak() - 1, true,
                        &effort));
  CHECK(effort > 0);
  StepFitter fitter = FitterOf(*graph);
  CHECK(fitter.SmallestBudget().value() == ArenaOf(*graph));
}

TEST_CASE("a step with an exchange between ranks is not small") {
  const auto small = [](bool exchanges) {
    GraphBuilder g("sums");
    const Value x = g.Input("x", DType::kF32, {64});
    const Value y = Exp(x);
    g.Output("y", Relu(exchanges ? AllReduce(y, 2) : y));
    const Graph graph = g.Finish().value();
    return IsSmallStep(graph, Simulation(graph, {}));
  };
  CHECK(small(false));
  CHECK_FALSE(small(true));
}

TEST_CASE("a gradient that waits long enough is made again") {
  // In units of 16 KiB: while k is made, g + h + k = 1 + 2 + 4 are live, and g
  // waits for z. It can be made again of x, which is there anyway.
  GraphBuilder b("gradients");
  const Value x = b.Input("x", DType::kF32, {64, 64});
  b.SetOrigin(Phase::kBackward, "x");
  const Value g = b.Name("g", Exp(x));
  const Value h = Concat(std::vector<Value>{g, g}, 0);
  const Value k = Concat(std::vector<Value>{h, h}, 0);
  const Value q = Copy(Slice(k, 0, 0, 64));
  b.Output("z", Add(q, g));
  const Result<Graph> graph = b.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Bytes unit = 64 * 64 * 4;
  REQUIRE(ArenaOf(*graph) == unit + 7 * unit);  // x too

  StepFitter fitter = FitterOf(*graph);
  CHECK(fitter.SmallestBudget().value() == unit + 6 * unit);
  const auto made = fitter.Fit(unit + 6 * unit);
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  CHECK(made->graph.Find("g~recomputed").has_value());
  CHECK(made->price.extra_flops == NodeFlops(*graph, graph->node(0)));
  CHECK(made->price.least_extra_cost <= made->price.extra_cost);
  REQUIRE(made->recomputed.size() == 1);
  CHECK(made->recomputed[0].name == "g");
  CHECK(made->recomputed[0].freed == unit);
  CHECK(ValidatePlan(made->graph, made->plan).empty());

  // Unless gradients are to stay.
  RecomputeChoices keeping(*graph, {}, {.gradients = false});
  const auto choices = keeping.All();
  REQUIRE(choices.ok());
  for (const RecomputeChoice& choice : *choices) {
    CHECK(keeping.Make(choice.script)->plan.arena_bytes() == unit + 7 * unit);
  }
}

TEST_CASE("a search that is cut off is not taken for a proof") {
  const Graph step = StepOf("mlp", {.batch = 2048});
  Simulation simulation(step, {});
  REQUIRE(simulation.Run(simulation.AsGiven()));
  REQUIRE(IsSmallStep(step, simulation));
  const Bytes peak = simulation.peak() - 1;
  int64_t effort = 1'000'000;
  CHECK(CheapestScript(step, simulation, peak, true, &effort).has_value());
  CHECK(effort > 0);
  effort = 10;
  CHECK(!CheapestScript(step, simulation, peak, true, &effort).has_value());
  CHECK(effort <= 0);
}

TEST_CASE("it is the packed arena that fits, however badly it is packed") {
  const Graph step = NanoStep();
  const PlanOptions linear{.packer = Packer::kLinear};
  const Bytes given = PlanMemory(step, linear)->arena_bytes();
  StepFitter fitter = FitterOf(step, {.plan = linear});
  const auto smallest = fitter.SmallestBudget();
  REQUIRE(smallest.ok());
  for (const Bytes budget : {*smallest, (*smallest + given) / 2}) {
    const auto made = fitter.Fit(budget);
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    CHECK(made->plan.arena_bytes() <= budget);
  }
  CHECK(!fitter.Fit(*smallest - 1).ok());
}

TEST_CASE("a chain of 100 layers runs in 24 of its values, forward twice") {
  // Segments of 10: the borders, one segment, and what its backward takes.
  GraphBuilder g("chain");
  Value x = g.Input("x", DType::kF32, {4096, 16});
  for (int i = 0; i < 100; ++i) {
    x = Tanh(MatMul(x, g.Param(StrCat("w", i), DType::kF32, {16, 16})));
  }
  g.Output("loss", ReduceMean(Square(x), {0, 1}));
  const auto forward = g.Finish();
  REQUIRE(forward.ok());
  const auto step = BuildTrainStep(*forward, "loss", {.optimizer = Sgd{}});
  REQUIRE(step.ok());
  const Plan given = *PlanMemory(*step);
  const Bytes value = 4096 * 16 * 4;
  const Bytes reserved = given.arena_bytes() - given.regions.span();
  CHECK(given.regions.span() > 100 * value);
  StepFitter fitter = FitterOf(*step);
  const auto made = fitter.Fit(reserved + 24 * value);
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  CHECK(made->price.extra_flops <= GraphFlops(*forward));
  // A tenth needs segments within segments: more expensive, but not refused.
  CHECK(fitter.Fit(reserved + 10 * value).ok());
}

// Bytes of a GPT-2 of 124 M parameters: 14 a parameter, W for what one layer's
// backward and the loss need at once, and k values of width C a token and layer
// that are kept. The extra operations are those of what else runs again, as
// shares of a step without recomputation:
// k = 10: norms and GELU only; 6: the first product of the feed-forward; 3: that
// of queries, keys and values; 2: the one after attention; 1: attention.
TEST_CASE("gpt2-124m costs what its matrix products say" *
          doctest::skip(!TakesAllInstances())) {
  const Graph step =
      StepOf("gpt2-124m", {.batch = 64, .seq = 1024, .dtype = DType::kBF16});
  struct Row {
    Bytes budget;
    double most_percent;
  };
  StepFitter fitter = FitterOf(step);
  for (const Row& row : {Row{15'100'000'000, 0.1}, Row{10'590'000'000, 7.0},
                         Row{7'260'000'000, 12.3}, Row{6'180'000'000, 14.1},
                         Row{5'100'000'000, 16.5}}) {
    const auto made = fitter.Fit(row.budget);
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    CHECK(made->plan.arena_bytes() <= row.budget);
    CHECK(made->price.extra_percent <= row.most_percent);
    CHECK(made->price.extra_flops <=
          made->price.least_extra_cost + 0.005 * GraphFlops(step));
  }
}

}  // namespace
}  // namespace stowage::fit
