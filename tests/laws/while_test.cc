// While loops: what they compute, how often, within their bound; their gradients; alike
// planned, poisoned and in memory of their own.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "runtime/session.h"
#include "tests/support/interpret.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

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
