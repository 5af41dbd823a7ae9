// Law 11: loops and branches give the same bits in a planned arena, in memory of their own and,
// for loops, unrolled; no node of a body reads dead bytes; the validator passes plans that run
// right. While loops: values, numbers of iterations and their bound, gradients.

#include "ir/control_flow.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_bytes.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/text.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/recompute/iterations.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "runtime/session.h"
#include "tests/support/instances.h"
#include "tests/support/interpret.h"
#include "tests/support/offload_values_in_bodies.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using testing::Differences;
using testing::Instances;
using testing::MakeRandomControlFlow;
using testing::OffloadValuesInBodies;
using testing::RunSteps;
using testing::Unrolled;
using testing::Visible;

// Of the bodies in `plan`: operands that die in them, and values that lie within these.
struct DeadOperands {
  int operands = 0;
  int values_within = 0;
};
void CountDeadOperands(const Plan& plan, DeadOperands* counts) {
  for (const BodyPlan& body : plan.bodies) {
    const auto end = static_cast<Time>(body.plan.workspace_of.size()) + 1;
    for (const PlannedBuffer& buffer : body.plan.buffers) {
      if (buffer.region != Region::kOutside || buffer.upper == end) continue;
      ++(buffer.within < 0 ? counts->operands : counts->values_within);
    }
    CountDeadOperands(body.plan, counts);
  }
}

TEST_CASE("300 random graphs run alike planned, poisoned, alone and unrolled") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  DeadOperands dead;
  for (uint64_t seed = 0; seed < Instances(300u); ++seed) {
    INFO("seed ", seed);
    const Graph graph = MakeRandomControlFlow(seed);
    // In small slots two values fit into one that is dead.
    const Bytes alignment = seed % 2 == 0 ? kDefaultAlignment : 64;
    const Result<Plan> plan =
        PlanMemory(graph, {.alignment = alignment, .device = cpu->Needs()});
    REQUIRE(plan.ok());
    const std::vector<std::string> wrong = ValidatePlan(graph, *plan);
    CHECK_MESSAGE(wrong.empty(), wrong.front());
    CHECK(plan->arena_bytes() >= plan->lower_bound);
    CountDeadOperands(*plan, &dead);

    const Visible alone =
        RunSteps(graph, *cpu, {.seed = seed, .planned = false});
    for (const bool poison : {false, true}) {
      const Visible planned =
          RunSteps(graph, *cpu,
                   {.seed = seed, .poison = poison, .alignment = alignment});
      CHECK(Differences(planned, alone) == "");
    }
    CHECK(Differences(RunSteps(Unrolled(graph), *cpu, {.seed = seed}), alone) ==
          "");
  }
  CHECK(dead.operands > 0);
  CHECK(dead.values_within > 0);
}

TEST_CASE("300 random graphs run alike whose bodies keep values on the host") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  int values = 0;
  for (uint64_t seed = 0; seed < Instances(300u); ++seed) {
    INFO("seed ", seed);
    const Graph kept = MakeRandomControlFlow(seed);
    const Graph offloaded = OffloadValuesInBodies(kept, seed);
    const int moved = fit::FindHostUse(offloaded).values;
    values += moved;
    const Result<Plan> plan = PlanMemory(offloaded, {.device = cpu->Needs()});
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    CHECK((plan->host_bytes() > 0) == (moved > 0));
    const std::vector<std::string> wrong = ValidatePlan(offloaded, *plan);
    CHECK_MESSAGE(wrong.empty(), wrong.front());

    const Visible expected =
        RunSteps(kept, *cpu, {.seed = seed, .planned = false});
    for (const testing::RunOptions& options :
         {testing::RunOptions{.seed = seed},
          testing::RunOptions{.seed = seed, .poison = true},
          testing::RunOptions{.seed = seed, .planned = false}}) {
      CHECK(Differences(RunSteps(offloaded, *cpu, options), expected) == "");
    }
  }
  CHECK(values > Instances(1000));
}

// The plan of some body in `plan`, at any depth, or null where there is none.
BodyPlan* SomeBody(Plan* plan, testing::Rng* rng) {
  BodyPlan* body = nullptr;
  while (!plan->bodies.empty() && (body == nullptr || rng->Below(3) > 0)) {
    body = &plan->bodies[static_cast<size_t>(
        rng->Below(static_cast<int64_t>(plan->bodies.size())))];
    plan = &body->plan;
  }
  return body;
}

// Moves a slot, also into another, puts a value into another, or changes a second place.
void Corrupt(BodyPlan* body, testing::Rng* rng) {
  const auto below = [&](size_t n) {
    return static_cast<size_t>(rng->Below(static_cast<int64_t>(n)));
  };
  Plan& plan = body->plan;
  PlannedBuffer& slot = plan.buffers[below(plan.buffers.size())];
  switch (rng->Below(5)) {
    case 0:
      slot.offset = plan.alignment * rng->Below(4);
      break;
    case 1:
      plan.buffer_of[below(plan.buffer_of.size())] =
          static_cast<int32_t>(below(plan.buffers.size()));
      break;
    case 2:
      slot.region = plan.buffers[below(plan.buffers.size())].region;
      break;
    case 3:
      slot.region = Region::kOutside;
      slot.within = static_cast<int32_t>(below(plan.buffers.size()));
      slot.offset = 0;
      break;
    default:
      if (body->second_of.empty()) break;
      body->second_of[below(body->second_of.size())] =
          static_cast<int32_t>(below(plan.buffers.size() + 1)) - 1;
  }
}

TEST_CASE("what the judge lets pass runs right, of 1,000 corrupted plans") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  int refused = 0;
  int passed = 0;
  for (uint64_t seed = 0; seed < Instances(100u); ++seed) {
    INFO("seed ", seed);
    Graph graph = MakeRandomControlFlow(seed);
    if (seed % 2 == 1) graph = OffloadValuesInBodies(graph, seed);
    const Result<Plan> good = PlanMemory(graph, {.device = cpu->Needs()});
    REQUIRE(good.ok());
    const Visible alone =
        RunSteps(graph, *cpu, {.seed = seed, .planned = false});
    testing::Rng rng(seed);
    for (int i = 0; i < 10; ++i) {
      Plan plan = *good;
      BodyPlan* const body = SomeBody(&plan, &rng);
      if (body == nullptr) break;
      Corrupt(body, &rng);
      if (!ValidatePlan(graph, plan).empty()) {
        ++refused;
        continue;
      }
      ++passed;
      Result<Session> session =
          Session::Create({{"run", graph, plan}}, *cpu, {.poison = true});
      REQUIRE_MESSAGE(session.ok(), session.error().message);
      CHECK(Differences(RunSteps(*session, {.seed = seed}), alone) == "");
    }
  }
  CHECK(refused > 0);
  CHECK(passed > 0);
}

TEST_CASE("graphs with bodies are read back from text and bytes as they were") {
  for (uint64_t seed = 0; seed < Instances(100u); ++seed) {
    INFO("seed ", seed);
    const Graph graph = MakeRandomControlFlow(seed);
    const Result<Graph> parsed = ParseGraph(ToText(graph));
    REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
    CHECK(Equal(*parsed, graph));
    const Result<Graph> read = GraphFromBytes(ToBytes(graph));
    REQUIRE_MESSAGE(read.ok(), read.error().message);
    CHECK(Equal(*read, graph));
  }
}

// Leaves of `graph` by name, of numbers that depend on the seed and the name alone.
Tensors RandomLeaves(const Graph& graph, uint64_t seed) {
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    Fnv1a hash;
    hash.Update(StrCat(value.name, " ", seed));
    testing::Rng rng(hash.digest());
    std::vector<double>& data = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      data.push_back(rng.Uniform(-1, 1));
    }
  }
  return leaves;
}

Graph WithGradients(const Graph& graph) {
  const Result<Graph> backward =
      BuildBackward(graph, "loss", {.wrt = {"w", "b"}});
  REQUIRE_MESSAGE(backward.ok(), backward.error().message);
  Result<Graph> linked = LinkBackward(graph, *backward, "loss");
  REQUIRE_MESSAGE(linked.ok(), linked.error().message);
  return *std::move(linked);
}

TEST_CASE("gradients of loops and branches are those of the unrolled graph") {
  for (uint64_t seed = 0; seed < Instances(300u); ++seed) {
    INFO("seed ", seed);
    const Graph graph = MakeRandomControlFlow(seed);
    const Tensors leaves = RandomLeaves(graph, seed);
    const Tensors looped = Interpret(WithGradients(graph), leaves);
    const Tensors plain = Interpret(WithGradients(Unrolled(graph)), leaves);
    for (const char* name : {"w", "b"}) {
      const std::vector<double>& a = looped.at(GradientName(name));
      const std::vector<double>& b = plain.at(GradientName(name));
      for (size_t i = 0; i < a.size(); ++i) {
        CHECK(std::abs(a[i] - b[i]) <= 1e-9 * std::max(1.0, std::abs(b[i])));
      }
    }
  }
}

TEST_CASE("gradients of loops and branches agree with central differences") {
  constexpr double kStep = 1e-6;
  for (uint64_t seed = 0; seed < Instances(100u); ++seed) {
    INFO("seed ", seed);
    const Graph graph = MakeRandomControlFlow(seed);
    Tensors leaves = RandomLeaves(graph, seed);
    const Tensors values = Interpret(WithGradients(graph), leaves);
    for (const char* name : {"w", "b"}) {
      const std::vector<double>& gradient = values.at(GradientName(name));
      testing::Rng rng(seed);
      const std::vector<double> center = leaves[name];
      std::vector<double> direction;
      double inner = 0;
      for (const double g : gradient) {
        direction.push_back(rng.Uniform(-1, 1));
        inner += g * direction.back();
      }
      double loss[2];
      for (const int side : {0, 1}) {
        for (size_t i = 0; i < center.size(); ++i) {
          leaves[name][i] =
              center[i] + (side == 1 ? kStep : -kStep) * direction[i];
        }
        loss[side] = Interpret(graph, leaves)["loss"][0];
      }
      leaves[name] = center;
      const double expected = (loss[1] - loss[0]) / (2 * kStep);
      CHECK(std::abs(inner - expected) <=
            1e-6 * std::max(1.0, std::abs(expected)));
    }
  }
}

TEST_CASE("training steps with loops and branches run alike however planned") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (uint64_t seed = 0; seed < Instances(150u); ++seed) {
    INFO("seed ", seed);
    const Result<Graph> step = BuildTrainStep(MakeRandomControlFlow(seed),
                                              "loss", {.optimizer = Sgd{}});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    const Visible alone =
        RunSteps(*step, *cpu, {.seed = seed, .planned = false});
    CHECK(Differences(RunSteps(*step, *cpu, {.seed = seed}), alone) == "");
    CHECK(Differences(RunSteps(*step, *cpu, {.seed = seed, .poison = true}),
                      alone) == "");
  }
}

TEST_CASE(
    "training steps run alike where the iterations of loops are made again") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  // So many at a time, and as many as take the least bytes, of 1 to 4 iterations and of 6,
  // 12, 18 and 24.
  const std::vector<std::optional<int64_t>> segments = {1, 2, 3, 4, 6, {}};
  std::map<int64_t, size_t> loops;  // by iterations in a segment
  for (uint64_t seed = 0; seed < Instances(250u); ++seed) {
    INFO("seed ", seed);
    const Result<Graph> step = BuildTrainStep(
        MakeRandomControlFlow(seed, /*branches=*/true,
                              /*iterations_of=*/1 + seed % 2 * 5),
        "loss", {.optimizer = Sgd{}});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    const Visible kept = RunSteps(*step, *cpu, {.seed = seed});
    for (const std::optional<int64_t> segment : segments) {
      CAPTURE(segment.value_or(0));
      const Result<fit::RecomputedIterations> made =
          fit::RecomputeIterations(*step, {.segment = segment});
      REQUIRE_MESSAGE(made.ok(), made.error().message);
      size_t of_several = 0;
      for (const fit::RecomputedLoop& loop : made->loops) {
        CHECK((loop.segment == 1 || !segment || loop.segment == *segment));
        of_several += loop.segment > 1 ? 1 : 0;
        ++loops[loop.segment];
      }
      if (made->loops.empty()) CHECK(ToText(made->graph) == ToText(*step));
      // Where none is in segments, the graph is that of one iteration at a time.
      if (of_several == 0 && segment != 1) continue;
      const Visible planned = RunSteps(made->graph, *cpu, {.seed = seed});
      CHECK(Differences(planned, kept) == "");
      for (const testing::RunOptions& options :
           {testing::RunOptions{.seed = seed, .poison = true},
            testing::RunOptions{.seed = seed, .planned = false}}) {
        CHECK(Differences(RunSteps(made->graph, *cpu, options), kept) == "");
      }
    }
  }
  CHECK(loops[1] >= Instances(250u) / 4);
  for (const int64_t segment : {2, 3, 4, 6}) {
    CAPTURE(segment);
    CHECK(loops[segment] >= Instances(250u) / 25);
  }
}

// --- While loops ----------------------------------------------------------------------

constexpr double kNear = 1e-3;

// The square root of the param a by Newton's method, from a on, until its square is
// near a; times a scale that all iterations read, for more than one operand.
Graph Root(DType dtype, int64_t most) {
  GraphBuilder g("root");
  const Value a = g.Param("a", dtype, {}, Init::Ones());
  const Value half = g.Input("half", dtype, {});
  const WhileResults root = While(
      g, most, {.carried = {a}, .whole = {a, half}},
      [](const WhileValues& v) {
        const Value off = Abs(Sub(Square(v.carried[0]), v.whole[0]));
        return Greater(off, Fill(v.builder, kNear, off.dtype(), {}));
      },
      [](const WhileValues& v) {
        const Value sum = Add(v.carried[0], Div(v.whole[0], v.carried[0]));
        return std::vector{Mul(sum, v.whole[1])};
      });
  g.Output("iterations", g.Name("iterations", root.iterations));
  g.Output("loss", g.Name("loss", root.carried[0]));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

struct Ran {
  double root;
  int iterations = 0;
};
Ran Newton(double a, int most) {
  Ran ran = {.root = a};
  while (ran.iterations < most && std::abs(ran.root * ran.root - a) > kNear) {
    ran.root = (ran.root + a / ran.root) * 0.5;
    ++ran.iterations;
  }
  return ran;
}

TEST_CASE("a while loop ends when its condition does, or at its bound") {
  for (const int most : {1, 3, 20}) {
    const Graph graph = Root(DType::kF64, most);
    for (const double a : {1.0, 2.0, 100.0, 0.0625}) {
      CAPTURE(most);
      CAPTURE(a);
      const Tensors values = Interpret(graph, {{"a", {a}}, {"half", {0.5}}});
      const Ran want = Newton(a, most);
      CHECK(values.at("loss")[0] == want.root);
      CHECK(values.at("iterations")[0] == want.iterations);
    }
  }
  CHECK(Newton(1, 20).iterations == 0);
  CHECK(Newton(100, 20).iterations > 3);
  CHECK(Newton(100, 20).iterations < 20);
}

TEST_CASE("its gradient is that of the iterations that ran") {
  for (const int most : {2, 20}) {
    const Result<Graph> step =
        BuildTrainStep(Root(DType::kF64, most), "loss", {.optimizer = Sgd{}});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    for (const double a : {1.0, 3.0, 100.0}) {
      CAPTURE(most);
      CAPTURE(a);
      Tensors leaves = {
          {"a", {a}}, {"half", {0.5}}, {"lr", {1}}, {"step", {1}}};
      CarryOver(*step, Interpret(*step, leaves), &leaves);
      const double eps = 1e-6 * a;
      const double difference =
          (Newton(a + eps, most).root - Newton(a - eps, most).root) / (2 * eps);
      CHECK(a - leaves.at("a")[0] == doctest::Approx(difference).epsilon(1e-6));
    }
  }
}

TEST_CASE("while loops run alike however they are planned") {
  const Result<Graph> step =
      BuildTrainStep(Root(DType::kF32, 12), "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  const auto cpu = MakeCpuBackend({.threads = 1});
  const auto run = [&](bool planned, bool poison) {
    testing::RunOptions options = {
        .steps = 3, .planned = planned, .poison = poison};
    options.write_inputs = [](Runner& runner, int64_t step) {
      REQUIRE(runner.Write("half", 0.5f).ok());
      REQUIRE(runner.Write("lr", -8.0f).ok());  // so that a grows
      REQUIRE(runner.Write("step", step).ok());
    };
    return testing::RunSteps(*step, *cpu, options);
  };
  const testing::Visible alone = run(false, false);
  CHECK(testing::Differences(run(true, false), alone) == "");
  CHECK(testing::Differences(run(true, true), alone) == "");
  // Another number of iterations in each step.
  CHECK(alone.at("iterations@0") != alone.at("iterations@1"));
}

TEST_CASE("what is wrong with a while loop is named") {
  const auto error =
      [](const std::function<Value(const WhileValues&)>& holds,
         const std::function<std::vector<Value>(const WhileValues&)>& body) {
        GraphBuilder g("wrong");
        const Value x = g.Input("x", DType::kF32, {2});
        const WhileResults run = While(g, 3, {.carried = {x}}, holds, body);
        if (run.iterations.ok()) g.Output("iterations", run.iterations);
        const Result<Graph> graph = g.Finish();
        return graph.ok() ? std::string() : graph.error().message;
      };
  const auto says = [](const std::string& message, const char* what) {
    CHECK_MESSAGE(message.find(what) != std::string::npos, message);
  };
  const auto always = [](const WhileValues& v) {
    const Value sum = ReduceSum(v.carried[0], {0});
    return Equal(sum, sum);
  };
  const auto same = [](const WhileValues& v) { return v.carried; };
  CHECK(error(always, same) == "");
  says(error([](const WhileValues& v) { return v.carried[0]; }, same),
       "[while] the condition is f32(2); expected bool()");
  says(error(always, [](const WhileValues&) { return std::vector<Value>(); }),
       "[while] the body returns 0 values; expected as many as are carried, 1");
  says(error(always,
             [](const WhileValues& v) {
               return std::vector{ReduceSum(v.carried[0], {0})};
             }),
       "[cond] output \"reduce_sum_1\" of body \"branch1\" is f32(); expected "
       "f32(2)");
}

}  // namespace
}  // namespace stowage
