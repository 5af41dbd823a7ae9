// Where what loops and branches carry, make and hand back lies, and when it dies: the
// streams worked out by hand, and what bodies take.

#include "ir/control_flow.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/train_step.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "tests/planner/planned_bodies.h"

namespace stowage {
namespace {

Bytes BodyArena(const Graph& graph, size_t body = 0) {
  return PlanOf(graph).bodies.at(body).plan.arena_bytes();
}

TEST_CASE("what is carried elementwise stays in the place of the result") {
  GraphBuilder g("net");
  const Value h = Input(g, "h");
  const Value xs = g.Input("xs", DType::kF32, {3, 4});
  const LoopResults run =
      Loop(g, 3, {.carried = {h}, .sliced = {xs}},
           [](LoopBody& body) {
             body.Next(0, Tanh(Add(body.carried(0), body.sliced(0))));
           },
           {.name = "cell"});
  g.Output("last", run.carried[0]);
  const Graph graph = Finish(g);
  CHECK(
      StreamText(graph) ==
      Text({"+h", "+xs", "+last", "last = loop h,xs",
            "{ cell, h to tanh_1 in one place", "add_1^tanh_1 = add h^h,xs^xs",
            "tanh_1^tanh_1 = tanh add_1^tanh_1", "}", "-last", "-xs", "-h"}));
  CHECK(BodyArena(graph) == 0);
  CHECK(PlanOf(graph).arena_bytes() == 5 * kSlot);
}

TEST_CASE("what is read after the next content is begun takes two places") {
  GraphBuilder g("net");
  const Value h = g.Input("h", DType::kF32, {1, 4});
  const Value w = g.Input("w", DType::kF32, {4, 4});
  const LoopResults run =
      Loop(g, 3, {.carried = {h}, .whole = {w}}, [](LoopBody& body) {
        body.Next(0, MatMul(body.carried(0), body.whole(0)));
      });
  g.Output("last", run.carried[0]);
  const Graph graph = Finish(g);
  CHECK(StreamText(graph) ==
        Text({"+h", "+w", "+last", "+workspace of \"last\"", "last = loop h,w",
              "{ loop, h to matmul_1 in two places",
              "matmul_1^matmul_1 = matmul h^h,w^w", "}",
              "-workspace of \"last\"", "-last", "-w", "-h"}));
  CHECK(BodyArena(graph) == kSlot);

  // A single iteration reads the operand and writes the result.
  GraphBuilder once("net");
  const Value a = once.Input("h", DType::kF32, {1, 4});
  const Value b = once.Input("w", DType::kF32, {4, 4});
  Loop(once, 1, {.carried = {a}, .whole = {b}}, [](LoopBody& body) {
    body.Next(0, MatMul(body.carried(0), body.whole(0)));
  });
  CHECK(BodyArena(Finish(once)) == 0);
}

TEST_CASE("two values that are swapped need one place beside their own") {
  GraphBuilder g("net");
  const Value a = Input(g, "a");
  const Value b = Input(g, "b");
  const LoopResults run = Loop(g, 4, {.carried = {a, b}}, [](LoopBody& body) {
    body.Next(0, body.carried(1));
    body.Next(1, body.carried(0));
  });
  g.Output("x", run.carried[0]);
  g.Output("y", run.carried[1]);
  const Graph graph = Finish(g);
  // b is read before its new content is written, a is not.
  CHECK(StreamText(graph) ==
        Text({"+a", "+b", "+x", "+y", "+workspace of \"x\"", "x,y = loop a,b",
              "{ loop, a to copy_1 in two places, b to copy_2 in one place",
              "copy_1^copy_1 = copy b^b", "copy_2^copy_2 = copy a^a", "}",
              "-workspace of \"x\"", "-x", "-y", "-b", "-a"}));
  CHECK(BodyArena(graph) == kSlot);
}

TEST_CASE("a value lives across a loop that does not read it") {
  GraphBuilder g("net");
  const Value x = Input(g, "x");
  const Value kept = g.Name("kept", Tanh(x));
  const LoopResults run = Loop(g, 2, {.carried = {x}}, [](LoopBody& body) {
    body.Next(0, Sin(body.carried(0)));
  });
  g.Output("y", Add(run.carried[0], kept));
  const Graph graph = Finish(g);
  CHECK(StreamText(graph) ==
        Text({"+x", "+kept", "kept = tanh x", "+loop_1", "loop_1 = loop x",
              "{ loop, x to sin_1 in one place", "sin_1^sin_1 = sin x^x", "}",
              "y = add loop_1,kept", "-kept", "-loop_1", "-x"}));
}

TEST_CASE("what a body makes for itself dies in it") {
  GraphBuilder g("net");
  const LoopResults run =
      Loop(g, 2, {.carried = {Input(g, "x")}}, [](LoopBody& body) {
        GraphBuilder& b = body.builder();
        const Value a = b.Name("a", Tanh(body.carried(0)));
        const Value c = b.Name("c", Sin(body.carried(0)));
        const Value wide = b.Name(
            "wide", Copy(BroadcastTo(Reshape(Add(a, c), {1, 4}), {3, 4})));
        body.Next(0, b.Name("next", ReduceSum(wide, {0})));
      });
  g.Output("y", run.carried[0]);
  const Graph graph = Finish(g);
  CHECK(StreamText(graph) == Text({"+x",
                                   "+y",
                                   "+workspace of \"y\"",
                                   "y = loop x",
                                   "{ loop, x to next in one place",
                                   "+a",
                                   "a = tanh x^x",
                                   "+c",
                                   "c = sin x^x",
                                   "add_1 = add a,c",
                                   "-c",
                                   "+wide",
                                   "wide = copy broadcast_1",
                                   "-a",
                                   "next^next = reduce_sum wide",
                                   "-wide",
                                   "}",
                                   "-workspace of \"y\"",
                                   "-y",
                                   "-x"}));
  CHECK(BodyArena(graph) == 4 * kSlot);  // wide, and the sum it is made of
}

TEST_CASE(
    "branches share bytes, and what one reads is not kept for the other") {
  GraphBuilder g("net");
  const Value x = Input(g, "x");
  const Value flag = Flag(g, "flag");
  // Read by the first branch alone, where it dies.
  const Value only = g.Name("only", Tanh(x));
  const std::vector<Value> y = Cond(
      g, flag, {x, only},
      {[](CondBody& body) {
         const Value a = body.builder().Name(
             "a", Copy(BroadcastTo(Reshape(body.operand(1), {1, 4}), {2, 4})));
         return std::vector{ReduceSum(a, {0})};
       },
       [](CondBody& body) {
         const Value b = body.builder().Name(
             "b", Copy(BroadcastTo(Reshape(body.operand(0), {1, 4}), {3, 4})));
         return std::vector{ReduceSum(b, {0})};
       }});
  g.Output("y", y[0]);
  const Graph graph = Finish(g);
  CHECK(StreamText(graph) == Text({"+x",
                                   "+flag",
                                   "+only",
                                   "only = tanh x",
                                   "+y",
                                   "+workspace of \"y\"",
                                   "y = cond flag,x,only",
                                   "{ branch0",
                                   "+a",
                                   "a = copy broadcast_1^only",
                                   "-only",
                                   "reduce_sum_1^reduce_sum_1 = reduce_sum a",
                                   "-a",
                                   "}",
                                   "{ branch1",
                                   "-only",
                                   "+b",
                                   "b = copy broadcast_1^x",
                                   "reduce_sum_1^reduce_sum_1 = reduce_sum b",
                                   "-b",
                                   "}",
                                   "-workspace of \"y\"",
                                   "-y",
                                   "-flag",
                                   "-x"}));
  CHECK(BodyArena(graph, 0) == 2 * kSlot);
  CHECK(BodyArena(graph, 1) == 3 * kSlot);
  const Plan plan = PlanOf(graph);
  const int32_t scratch = plan.workspace_of[1];
  REQUIRE(scratch >= 0);
  CHECK(plan.buffers[static_cast<size_t>(scratch)].size == 3 * kSlot);
}

TEST_CASE("an operand that a branch returns is copied in sight") {
  GraphBuilder g("net");
  const Value flag = Flag(g, "flag");
  const Value x = Input(g, "x");
  const std::vector<Value> y =
      Cond(g, flag, {x},
           {[](CondBody& body) { return std::vector{body.operand(0)}; },
            [](CondBody& body) { return std::vector{Sin(body.operand(0))}; }});
  g.Output("y", y[0]);
  CHECK(StreamText(Finish(g)) ==
        Text({"+flag", "+x", "+y", "y = cond flag,x", "{ branch0",
              "copy_1^copy_1 = copy x^x", "}", "{ branch1",
              "sin_1^sin_1 = sin x^x", "}", "-y", "-x", "-flag"}));
}

TEST_CASE("a branch in a branch has its bytes in those of the outer one") {
  GraphBuilder g("net");
  const auto same = [](CondBody& body) {
    return std::vector{Sin(body.operand(0))};
  };
  const Value flag = Flag(g, "flag");
  const Value x = Input(g, "x");
  const Value second = Flag(g, "inner");
  const std::vector<Value> y =
      Cond(g, flag, {x, second},
           {[&](CondBody& body) {
              const Value t = body.builder().Name("t", Tanh(body.operand(0)));
              return Cond(body.builder(), body.operand(1), {t}, {same, same});
            },
            same});
  g.Output("y", y[0]);
  const Graph graph = Finish(g);
  CHECK(StreamText(graph) == Text({"+flag",
                                   "+x",
                                   "+inner",
                                   "+y",
                                   "+workspace of \"y\"",
                                   "y = cond flag,x,inner",
                                   "{ branch0",
                                   "+t",
                                   "t = tanh x^x",
                                   "cond_1^cond_1 = cond inner^inner,t",
                                   "{ branch0",
                                   "sin_1^sin_1 = sin t^t",
                                   "-t",
                                   "}",
                                   "{ branch1",
                                   "sin_1^sin_1 = sin t^t",
                                   "-t",
                                   "}",
                                   "}",
                                   "{ branch1",
                                   "sin_1^sin_1 = sin x^x",
                                   "}",
                                   "-workspace of \"y\"",
                                   "-y",
                                   "-inner",
                                   "-x",
                                   "-flag"}));
}

TEST_CASE(
    "a condition dies before the branch that it chooses; unread operands too") {
  GraphBuilder g("net");
  const Value x = Input(g, "x");
  const Value unread = g.Name("unread", Tanh(x));
  const Value flag = g.Name("flag", Greater(ReduceSum(x), ReduceMean(x)));
  const auto sine = [](CondBody& body) {
    return std::vector{Sin(body.operand(0))};
  };
  g.Output("y", Cond(g, flag, {x, unread}, {sine, sine})[0]);
  const Lines stream = StreamOf(Finish(g));
  const auto at = [&](std::string_view line) {
    return std::ranges::find(stream, line) - stream.begin();
  };
  CHECK(at("y = cond flag,x,unread") < at("-flag"));
  CHECK(at("-flag") < at("{ branch0"));
  CHECK(at("-unread") == at("{ branch0") + 1);
  CHECK(std::ranges::count(stream, "-flag") == 1);
  CHECK(std::ranges::count(stream, "-unread") == 2);  // on either way
}

TEST_CASE(
    "a condition that is handed in as well dies where a branch reads it last") {
  GraphBuilder g("net");
  const Value x = Input(g, "x");
  const Value flag = g.Name("flag", Greater(ReduceSum(x), ReduceMean(x)));
  const auto as_number = [](CondBody& body) {
    return std::vector{Sin(Cast(body.operand(0), DType::kF32))};
  };
  g.Output("y", Cond(g, flag, {flag}, {as_number, as_number})[0]);
  const Lines stream = StreamOf(Finish(g));
  const auto at = [&](std::string_view line) {
    return std::ranges::find(stream, line) - stream.begin();
  };
  CHECK(at("{ branch0") < at("-flag"));
  CHECK(std::ranges::count(stream, "-flag") == 2);  // on either way
}

TEST_CASE("the gradient of a branch lies in what dies and what it hands back") {
  constexpr int64_t kRows = 256, kSize = 512;
  GraphBuilder g("gated");
  const Value x = g.Input("x", DType::kF32, {kRows, kSize});
  const Value flag = Flag(g, "flag");
  const Value w = g.Param("w", DType::kF32, {kSize, kSize});
  const Value v = g.Param("v", DType::kF32, {kSize, kSize});
  const std::vector<Value> y =
      Cond(g, flag, {x, w, v},
           {[](CondBody& body) {
              const Value h = Relu(MatMul(body.operand(0), body.operand(1)));
              return std::vector{
                  Add(body.operand(0), Relu(MatMul(h, body.operand(2))))};
            },
            [](CondBody& body) { return std::vector{Tanh(body.operand(0))}; }});
  g.Output("loss", ReduceMean(Square(y[0])));
  const Result<Graph> step =
      BuildTrainStep(Finish(g), "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  const Plan plan = PlanOf(*step);
  // Of the way through both layers, which is there again: h, until the gradient of w is
  // made of what it has let through. The second layer is in the gradient of w before
  // that, and the gradient of h where that of y was.
  REQUIRE(plan.bodies.size() == 4);
  CHECK(plan.bodies[2].plan.arena_bytes() == kRows * kSize * 4);
  CHECK(plan.bodies[3].plan.arena_bytes() == 0);
}

}  // namespace
}  // namespace stowage
