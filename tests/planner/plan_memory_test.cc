#include "planner/plan_memory.h"

#include <doctest/doctest.h>

#include "autodiff/backward.h"
#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan.h"
#include "planner/validate_plan.h"

namespace stowage {
namespace {

Graph Finish(GraphBuilder& g) {
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

Plan MustPlan(const Graph& graph, const PlanOptions& options = {}) {
  auto plan = PlanMemory(graph, options);
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  for (const std::string& text : ValidatePlan(graph, *plan)) FAIL_CHECK(text);
  return std::move(*plan);
}

// x (8, 16) through two layers of 32 and 4: every size below can be done by
// hand.
Graph SmallModel(int64_t batch = 8) {
  GraphBuilder g("small");
  Value x = g.Input("x", DType::kF32, {batch, 16});
  Value y = g.Input("y", DType::kI32, {batch});
  Value w1 = g.Param("w1", DType::kF32, {16, 32});
  Value w2 = g.Param("w2", DType::kF32, {32, 4});
  Value h = g.Name("h", MatMul(x, w1));
  Value logits = g.Name("logits", MatMul(Relu(h), w2));
  g.Output("loss", CrossEntropy(logits, y));
  return Finish(g);
}

TEST_CASE("the figures of a chain are those done by hand") {
  GraphBuilder g("chain");
  Value x = g.Input("x", DType::kF32, {64});  // 256 bytes: one slot of 256
  Value w = g.Param("w", DType::kF32, {1});   // 4 bytes, padded to 256
  Value a = g.Name("a", Concat(std::vector{x, x}, 0));  // 512 bytes, time 0
  Value b = g.Name("b", Concat(std::vector{a, x}, 0));  // 768, time 1
  Value c = g.Name("c", Concat(std::vector{b, w}, 0));  // 772 -> 1024, time 2
  g.Output("out", ReduceSum(c));                        // 4 -> 256, time 3
  const Graph graph = Finish(g);
  const Plan plan = MustPlan(graph);
  CHECK(plan.regions.weights == 256);
  CHECK(plan.regions.state == 0);
  CHECK(plan.regions.io == 256);
  // Live: time 0: 512; time 1: 512 + 768; time 2: 768 + 1024; time 3: 1024 +
  // 256.
  CHECK(plan.lower_bound == 512 + 1792);
  CHECK(plan.peak_time == 2);
  CHECK(plan.arena_bytes() == plan.lower_bound);
  CHECK(plan.optimal);
  CHECK(plan.no_reuse == 512 + 512 + 768 + 1024 + 256);
  CHECK(plan.saved() == plan.no_reuse - plan.arena_bytes());
  CHECK(plan.views == 0);
}

TEST_CASE("without packing or sharing, the arena is the no-reuse figure") {
  const Graph step = *BuildTrainStep(SmallModel(), "loss");
  const Plan plan =
      MustPlan(step, {.packer = Packer::kLinear, .in_place = false});
  CHECK(plan.arena_bytes() == plan.no_reuse);
  CHECK(plan.saved() == 0);
}

TEST_CASE("views save nothing: they are in no figure") {
  const auto build = [](bool with_views) {
    GraphBuilder g("g");
    Value x = g.Input("x", DType::kF32, {32, 32});
    Value a = MatMul(x, x);
    if (with_views) a = Reshape(Transpose(Slice(a, 0, 0, 32)), {32, 1, 32});
    g.Output("out", MatMul(Reshape(a, {32, 32}), x));
    return Finish(g);
  };
  const Plan plain = MustPlan(build(false));
  const Plan viewed = MustPlan(build(true));
  CHECK(viewed.views > plain.views);
  CHECK(viewed.no_reuse == plain.no_reuse);
  CHECK(viewed.arena_bytes() == plain.arena_bytes());
}

TEST_CASE("the budget holds to the byte") {
  const Graph step = *BuildTrainStep(SmallModel(), "loss");
  const Bytes need = MustPlan(step).arena_bytes();
  CHECK(PlanMemory(step, {.budget = need}).ok());
  const auto refused = PlanMemory(step, {.budget = need - 1});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
}

TEST_CASE("a budget below the need names need, peak and largest live buffers") {
  GraphBuilder g("g");
  Value x = g.Input("x", DType::kF32, {256, 1024});   // 1 MiB
  Value w = g.Param("w", DType::kF32, {1024, 1024});  // 4 MiB
  Value h = g.Name("h", MatMul(x, w));                // 1 MiB, time 0
  Value wide =
      g.Name("wide", Concat(std::vector{h, h, h}, 0));  // 3 MiB, time 1
  g.Output("out", ReduceSum(wide));                     // 4 B, time 2
  const Graph graph = Finish(g);
  const auto refused = PlanMemory(graph, {.budget = 8 << 20});
  REQUIRE_FALSE(refused.ok());
  CHECK(
      refused.error().message ==
      "[plan] budget 8.0 MiB is below the 9.0 MiB this step needs at its peak, "
      "time 1 (\"wide\"); largest live: \"w\" 4.0 MiB, \"wide\" 3.0 MiB, \"x\" "
      "1.0 MiB; smallest budget that works: 9.0 MiB");
  const auto close = PlanMemory(graph, {.budget = (9 << 20) - 1});
  REQUIRE_FALSE(close.ok());
  CHECK(close.error().message.find(
            "budget 9.0 MiB (9437183 bytes) is below the 9.0 MiB (9437184 "
            "bytes)") != std::string::npos);
}

TEST_CASE("bad options are errors that name the value") {
  const Graph graph = SmallModel();
  const auto message = [&](const PlanOptions& options) {
    const auto plan = PlanMemory(graph, options);
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().code == ErrorCode::kInvalidArgument);
    return plan.error().message;
  };
  CHECK(message({.alignment = 48}) ==
        "[plan] alignment 48 is not a power of two; 64 and 256 are usual");
  CHECK(message({.alignment = 0}) ==
        "[plan] alignment 0 is not a power of two; 64 and 256 are usual");
  CHECK(message({.budget = 0}) ==
        "[plan] budget 0 bytes is not positive; give the most bytes the arena "
        "may take");
}

TEST_CASE("sums beyond 64 bits are an error naming the buffer") {
  GraphBuilder g("g");
  Value x = g.Input("x", DType::kU8, {int64_t{1} << 62});
  Value a = g.Name("a", Copy(x));
  g.Output("out", Copy(a));
  const auto plan = PlanMemory(Finish(g));
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message ==
        "[plan] the sum of all buffers does not fit 64 bits at \"a\" of "
        "4611686018427387904 bytes");
}

TEST_CASE("values that take turns in one buffer count towards the sum, too") {
  // An arena of 2^61 bytes, twice; without reuse 11 * 2^60 > 2^63.
  GraphBuilder g("g");
  Value x = g.Input("x", DType::kF32, {int64_t{1} << 58});
  for (int i = 0; i < 10; ++i) x = g.Name(StrCat("h", i), Relu(x));
  g.Output("out", x);
  const auto plan = PlanMemory(Finish(g));
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message ==
        "[plan] the sum of all buffers does not fit 64 bits at \"h6\" of "
        "1152921504606846976 bytes");
}

TEST_CASE("what a weight layout reserves counts towards the sum, too") {
  GraphBuilder weights("weights");
  weights.Output("w", weights.Param("w", DType::kU8, {int64_t{1} << 62}));
  const Graph first = Finish(weights);
  const Plan first_plan = MustPlan(first);
  const WeightLayout layout = WeightLayout::FromForward(first, first_plan);
  GraphBuilder g("g");
  g.Output("out", Copy(g.Input("x", DType::kU8, {int64_t{1} << 61})));
  const auto plan = PlanMemory(Finish(g), {.weights = layout});
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message ==
        "[plan] the sum of all buffers does not fit 64 bits at \"out\" of "
        "2305843009213693952 bytes");
}

TEST_CASE("every slot is aligned to what was asked") {
  const Graph step = *BuildTrainStep(SmallModel(5), "loss");
  for (const Bytes alignment : {Bytes{1}, Bytes{64}, Bytes{4096}}) {
    const Plan plan = MustPlan(step, {.alignment = alignment});
    for (const PlannedBuffer& buffer : plan.buffers) {
      CHECK(plan.AddressOf(buffer) % alignment == 0);
    }
  }
}

TEST_CASE("planning twice gives the same plan, byte for byte") {
  const Graph step = *BuildTrainStep(SmallModel(), "loss");
  const Plan a = MustPlan(step), b = MustPlan(step);
  REQUIRE(a.buffers.size() == b.buffers.size());
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    CHECK(a.AddressOf(a.buffers[i]) == b.AddressOf(b.buffers[i]));
  }
}

TEST_CASE("what the backend keeps lies in io, and is in every figure") {
  const Graph graph = SmallModel();
  const Plan plain = MustPlan(graph);
  const Plan plan = MustPlan(
      graph, {.device = {.reserve = [&](const Graph& asked, Bytes alignment) {
                CHECK(asked.name() == graph.name());
                return alignment + 1;  // 257 bytes: two slots
              }}});
  CHECK(plain.reserve == -1);
  REQUIRE(plan.reserve >= 0);
  const PlannedBuffer& reserve =
      plan.buffers[static_cast<size_t>(plan.reserve)];
  CHECK(reserve.region == Region::kIo);
  CHECK(reserve.offset == plain.regions.io);  // behind the inputs
  CHECK(reserve.size == 257);
  CHECK(reserve.lower == 0);
  CHECK(reserve.upper == graph.num_nodes() + 1);
  CHECK(plan.regions.io == plain.regions.io + 512);
  CHECK(plan.arena_bytes() == plain.arena_bytes() + 512);
  CHECK(plan.lower_bound == plain.lower_bound + 512);
  CHECK(plan.no_reuse == plain.no_reuse + 512);
}

TEST_CASE("the regions add up to the arena, scratch included") {
  const Graph step = *BuildTrainStep(SmallModel(), "loss");
  const Plan plan = MustPlan(
      step,
      {.device = {.workspace = [](const Graph&, const Node& node) -> Bytes {
         return node.op == OpKind::kMatMul ? 1 << 20 : 0;
       }}});
  CHECK(plan.regions.workspace > 1 << 19);
  CHECK(plan.regions.activations < 1 << 16);
  CHECK(plan.regions.total() == plan.arena_bytes());
  Bytes highest = 0;
  for (const PlannedBuffer& buffer : plan.buffers) {
    highest = std::max(highest, plan.AddressOf(buffer) + buffer.size);
  }
  CHECK(highest <= plan.arena_bytes());
  CHECK(highest > plan.arena_bytes() - plan.alignment);
}

// --- Params outside of the arena ---

// w2 is trained, w1 of 2048 bytes is frozen.
Graph StepBesideConstant() {
  auto step = BuildTrainStep(
      SmallModel(), "loss",
      {.optimizer = Sgd{}, .groups = {{.pattern = "w1", .frozen = true}}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

TEST_CASE("a param outside takes no byte of the arena, in no figure") {
  const Graph step = StepBesideConstant();
  const Plan inside = MustPlan(step);
  const Plan outside = MustPlan(step, {.outside = {"w1"}});
  CHECK(outside.arena_bytes() == inside.arena_bytes() - 2048);
  CHECK(outside.lower_bound == inside.lower_bound - 2048);
  CHECK(outside.no_reuse == inside.no_reuse - 2048);
  CHECK(outside.regions.weights == 512);  // w2
  CHECK(outside.host_bytes() == 0);
  // Another program over the same weights does without it, too.
  const Plan beside = MustPlan(
      SmallModel(1),
      {.weights = WeightLayout::FromForward(step, outside), .outside = {"w1"}});
  CHECK(beside.regions.weights == 512);
}

TEST_CASE("a param that is updated cannot be outside") {
  const Graph step = StepBesideConstant();
  const auto refused = PlanMemory(step, {.outside = {"w2"}});
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK(refused.error().message.find("\"w2\" is outside of the arena") !=
        std::string::npos);
  CHECK(refused.error().message.find("updates it") != std::string::npos);
  // Nor does the validator take such a plan.
  Plan plan = MustPlan(step, {.outside = {"w1"}});
  for (PlannedBuffer& buffer : plan.buffers) {
    if (buffer.region != Region::kWeights) continue;
    buffer.region = Region::kOutside;
    buffer.offset = 0;
  }
  const std::vector<std::string> broken = ValidatePlan(step, plan);
  REQUIRE(!broken.empty());
  CHECK(broken.front().find("\"w2\" is in region outside") !=
        std::string::npos);
}

Graph Model(int64_t batch, std::string_view second = "w2",
            const Shape& second_shape = {32, 4}) {
  GraphBuilder g("model");
  Value x = g.Input("x", DType::kF32, {batch, 16});
  Value y = g.Input("y", DType::kI32, {batch});
  Value w1 = g.Param("w1", DType::kF32, {16, 32});
  Value w2 = g.Param(second, DType::kF32, second_shape);
  g.Output("loss", CrossEntropy(MatMul(Relu(MatMul(x, w1)), w2), y));
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

Bytes AddressOf(const Graph& graph, const Plan& plan, std::string_view name) {
  const auto id = graph.Find(name);
  REQUIRE(id.has_value());
  return plan.AddressOf(plan.buffers[static_cast<size_t>(
      plan.buffer_of[static_cast<size_t>(*id)])]);
}

TEST_CASE("every program over the weights agrees on where they are") {
  const Graph forward = Model(8);
  const Plan forward_plan = *PlanMemory(forward);
  const WeightLayout weights = WeightLayout::FromForward(forward, forward_plan);

  const Graph backward = *BuildBackward(forward, "loss");
  const Graph step = *BuildTrainStep(forward, "loss");
  const Graph eval = Model(3);  // another batch size
  for (const Graph* graph : {&backward, &step, &eval}) {
    const auto plan = PlanMemory(*graph, {.weights = weights});
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    CHECK(ValidatePlan(*graph, *plan).empty());
    CHECK(plan->regions.weights == forward_plan.regions.weights);
    for (const char* name : {"w1", "w2"}) {
      if (!graph->Find(name)) continue;  // backward reads only w2
      CHECK(AddressOf(*graph, *plan, name) ==
            AddressOf(forward, forward_plan, name));
    }
    // No activation may touch the weights, read by this program or not.
    for (const PlannedBuffer& buffer : plan->buffers) {
      if (buffer.region == Region::kWeights) continue;
      CHECK(plan->AddressOf(buffer) >= weights.weight_bytes());
    }
  }
}

TEST_CASE("a step's layout also fixes the states for programs without them") {
  const Graph forward = Model(8);
  const Graph step = *BuildTrainStep(forward, "loss", {.optimizer = AdamW{}});
  const Plan step_plan = *PlanMemory(step);
  const WeightLayout layout = WeightLayout::FromForward(step, step_plan);
  // m and v for each of two params.
  CHECK(layout.states().size() == 4);
  const Plan eval_plan = *PlanMemory(forward, {.weights = layout});
  CHECK(eval_plan.regions.state == step_plan.regions.state);
  CHECK(ValidatePlan(forward, eval_plan).empty());

  const Graph other_batch =
      *BuildTrainStep(Model(2), "loss", {.optimizer = AdamW{}});
  const Plan other = *PlanMemory(other_batch, {.weights = layout});
  CHECK(AddressOf(other_batch, other, "w1.m") ==
        AddressOf(step, step_plan, "w1.m"));
}

TEST_CASE("missing and mismatched params are errors that name them") {
  const Graph forward = Model(8);
  const WeightLayout weights =
      WeightLayout::FromForward(forward, *PlanMemory(forward));
  const auto message = [&](const Graph& graph) {
    const auto plan = PlanMemory(graph, {.weights = weights});
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().code == ErrorCode::kInvalidArgument);
    return plan.error().message;
  };
  CHECK(message(Model(8, "w3")) ==
        "[plan] the weight layout has no param \"w3\" of f32(32, 4); it must "
        "come from a plan of the same model");
  CHECK(message(Model(8, "w2", {32, 5})) ==
        "[plan] param \"w2\" is f32(32, 5) here and f32(32, 4) in the weight "
        "layout; they must be equal");
}

TEST_CASE("states that the layout lacks are an error that names them") {
  const Graph forward = Model(8);
  const Graph sgd = *BuildTrainStep(forward, "loss", {.optimizer = Momentum{}});
  const WeightLayout layout = WeightLayout::FromForward(sgd, *PlanMemory(sgd));
  const Graph adamw = *BuildTrainStep(forward, "loss", {.optimizer = AdamW{}});
  const auto plan = PlanMemory(adamw, {.weights = layout});
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message.find("the weight layout has no state \"w") !=
        std::string::npos);
}

TEST_CASE("a layout that is aligned less than the plan is refused") {
  const Graph forward = Model(8);
  const WeightLayout weights = WeightLayout::FromForward(
      forward, *PlanMemory(forward, {.alignment = 64}));
  const auto plan = PlanMemory(forward, {.alignment = 256, .weights = weights});
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message ==
        "[plan] the weight layout is aligned to 64 bytes, this plan to 256; "
        "plan both with one alignment");
}

}  // namespace
}  // namespace stowage
