// What is live where in small programs of loops and branches, worked out by hand, and
// equal to their streams.

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "tests/planner/planned_bodies.h"

namespace stowage {
namespace {

// Each takes a slot a value, but for `wide` ones, which take two.
Value Wide(Value x) { return Copy(BroadcastTo(Reshape(x, {1, 4}), {2, 4})); }
std::vector<Value> Sine(CondBody& body) {
  return std::vector{Sin(body.operand(0))};
}

struct Program {
  const char* what;
  std::function<void(GraphBuilder& g, Value x, Value flag)> build;
  Lines stream;
  Bytes slots;       // that the arena takes
  Bytes bound = -1;  // that it needs at least; -1: as many
};

const Program kPrograms[] = {
    {"nested if",
     [](GraphBuilder& g, Value x, Value flag) {
       const Value inner = Flag(g, "inner");
       const Value t = g.Name("t", Tanh(x));
       g.Output("y", Cond(g, flag, {t, inner},
                          {[](CondBody& body) {
                             return Cond(body.builder(), body.operand(1),
                                         {body.operand(0)}, {Sine, Sine});
                           },
                           Sine})[0]);
     },
     {"+x",
      "+flag",
      "+inner",
      "+t",
      "t = tanh x",
      "+y",
      "y = cond flag,t,inner",
      "{ branch0",
      "cond_1^cond_1 = cond inner^inner,t^t",
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
      "sin_1^sin_1 = sin t^t",
      "-t",
      "}",
      "-y",
      "-inner",
      "-flag",
      "-x"},
     5},
    {"values that one branch reads",
     [](GraphBuilder& g, Value x, Value flag) {
       const Value a = g.Name("a", Tanh(x));
       const Value b = g.Name("b", Tanh(x));
       g.Output("y", Cond(g, flag, {a, b}, {Sine, [](CondBody& body) {
                                              return std::vector{
                                                  Sin(body.operand(1))};
                                            }})[0]);
     },
     {"+x",
      "+flag",
      "+a",
      "a = tanh x",
      "+b",
      "b = tanh x",
      "+y",
      "y = cond flag,a,b",
      "{ branch0",
      "-b",
      "sin_1^sin_1 = sin a^a",
      "-a",
      "}",
      "{ branch1",
      "-a",
      "sin_1^sin_1 = sin b^b",
      "-b",
      "}",
      "-y",
      "-flag",
      "-x"},
     5},
    {"alias returned from a branch",
     [](GraphBuilder& g, Value x, Value flag) {
       const Value a = g.Name("a", Tanh(x));
       const auto back = [](CondBody& body) {
         return std::vector{Reshape(Reshape(body.operand(0), {2, 2}), {4})};
       };
       g.Output("y", Cond(g, flag, {a}, {back, Sine})[0]);
     },
     {"+x", "+flag", "+a", "a = tanh x", "+y", "y = cond flag,a", "{ branch0",
      "copy_1^copy_1 = copy reshape_2^a", "-a", "}", "{ branch1",
      "sin_1^sin_1 = sin a^a", "-a", "}", "-y", "-flag", "-x"},
     4},
    {"loop-carried swap",
     [](GraphBuilder& g, Value x, Value) {
       const Value a = g.Name("a", Tanh(x));
       const Value b = g.Name("b", Tanh(x));
       const LoopResults run =
           Loop(g, 2, {.carried = {a, b}}, [](LoopBody& body) {
             body.Next(0, body.carried(1));
             body.Next(1, body.carried(0));
           });
       g.Output("y", run.carried[0]);
       g.Output("z", run.carried[1]);
     },
     {"+x",
      "+flag",
      "+a",
      "a = tanh x",
      "+b",
      "b = tanh x",
      "+y",
      "+z",
      "+workspace of \"y\"",
      "y,z = loop a,b",
      "{ loop, a to copy_1 in two places, b to copy_2 in one place",
      "copy_1^copy_1 = copy b^b",
      "copy_2^copy_2 = copy a^a",
      "}",
      "-a",
      "-b",
      "-workspace of \"y\"",
      "-y",
      "-z",
      "-flag",
      "-x"},
     7},
    {"dead param",
     [](GraphBuilder& g, Value x, Value flag) {
       const Value w = g.Param("w", DType::kF32, {4});
       g.Output("y", Cond(g, flag, {x, w}, {Sine, Sine})[0]);
     },
     {"+w", "+x", "+flag", "+y", "y = cond flag,x,w", "{ branch0",
      "sin_1^sin_1 = sin x^x", "}", "{ branch1", "sin_1^sin_1 = sin x^x", "}",
      "-y", "-flag", "-x", "-w"},
     4},
    {"value live across a loop",
     [](GraphBuilder& g, Value x, Value) {
       const Value kept = g.Name("kept", Tanh(x));
       const LoopResults run = Loop(g, 2, {.carried = {x}}, [](LoopBody& body) {
         body.Next(0, Sin(body.carried(0)));
       });
       g.Output("y", Add(g.Name("run", run.carried[0]), kept));
     },
     {"+x", "+flag", "+kept", "kept = tanh x", "+run", "run = loop x",
      "{ loop, x to sin_1 in one place", "sin_1^sin_1 = sin x^x", "}",
      "y = add run,kept", "-kept", "-run", "-flag", "-x"},
     4},
    {"condition",
     [](GraphBuilder& g, Value x, Value) {
       const Value sum = g.Name("sum", ReduceSum(x));
       const Value chosen = g.Name("chosen", Greater(sum, sum));
       g.Output("y", Cond(g, chosen, {x}, {Sine, Sine})[0]);
     },
     {"+x", "+flag", "+sum", "sum = reduce_sum x", "+chosen",
      "chosen = greater sum,sum", "-sum", "+y", "y = cond chosen,x", "-chosen",
      "{ branch0", "sin_1^sin_1 = sin x^x", "}", "{ branch1",
      "sin_1^sin_1 = sin x^x", "}", "-y", "-flag", "-x"},
     4},
    {"operand that both branches read",
     [](GraphBuilder& g, Value x, Value flag) {
       const Value wide = g.Name("wide", Wide(x));
       const auto again = [](CondBody& body) {
         GraphBuilder& b = body.builder();
         const Value r = b.Name("r", ReduceSum(body.operand(0), {0}));
         return std::vector{ReduceSum(b.Name("own", Wide(r)), {0})};
       };
       const auto once = [](CondBody& body) {
         return std::vector{ReduceSum(body.operand(0), {0})};
       };
       g.Output("y", Cond(g, flag, {wide}, {again, once})[0]);
     },
     {"+x",
      "+flag",
      "+wide",
      "wide = copy broadcast_1",
      "+y",
      "y = cond flag,wide",
      "{ branch0",
      "+r",
      "r^reduce_sum_2 = reduce_sum wide^wide",
      "-wide",
      "+own",
      "own^wide = copy broadcast_1^reduce_sum_2",
      "-r",
      "reduce_sum_2^reduce_sum_2 = reduce_sum own^wide",
      "-own",
      "}",
      "{ branch1",
      "reduce_sum_1^reduce_sum_1 = reduce_sum wide^wide",
      "-wide",
      "}",
      "-y",
      "-flag",
      "-x"},
     5},
    {"operand that is written over",
     [](GraphBuilder& g, Value x, Value flag) {
       const Value a = g.Name("a", Tanh(x));
       const auto chain = [](CondBody& body) {
         const Value t = body.builder().Name("t", Tanh(body.operand(0)));
         return std::vector{ReduceSum(Wide(Add(t, t)), {0})};
       };
       g.Output("y", Cond(g, flag, {a}, {chain, Sine})[0]);
     },
     {"+x",
      "+flag",
      "+a",
      "a = tanh x",
      "+y",
      "+workspace of \"y\"",
      "y = cond flag,a",
      "{ branch0",
      "t^a = tanh a^a",
      "add_1^a = add t^a,t^a",
      "+copy_1",
      "copy_1 = copy broadcast_1^a",
      "-a",
      "reduce_sum_1^reduce_sum_1 = reduce_sum copy_1",
      "-copy_1",
      "}",
      "{ branch1",
      "sin_1^sin_1 = sin a^a",
      "-a",
      "}",
      "-workspace of \"y\"",
      "-y",
      "-flag",
      "-x"},
     6,
     5},  // copy_1 might lie in y and beside it
    {"operand handed in twice",
     [](GraphBuilder& g, Value x, Value flag) {
       const Value a = g.Name("a", Tanh(x));
       const auto both = [](CondBody& body) {
         return std::vector{MatMul(body.operand(0), body.operand(1))};
       };
       g.Output("y", Cond(g, flag, {Reshape(a, {1, 4}), Reshape(a, {4, 1})},
                          {both, both})[0]);
     },
     {"+x", "+flag", "+a", "a = tanh x", "+y",
      "y = cond flag,reshape_1,reshape_2", "{ branch0",
      "matmul_1^matmul_1 = matmul reshape_1^reshape_1,"
      "reshape_2^reshape_2",
      "}", "{ branch1",
      "matmul_1^matmul_1 = matmul reshape_1^reshape_1,"
      "reshape_2^reshape_2",
      "}", "-a", "-y", "-flag", "-x"},
     4},
    {"branch in a loop",
     [](GraphBuilder& g, Value x, Value flag) {
       const LoopResults run =
           Loop(g, 2, {.carried = {x}, .whole = {flag}}, [](LoopBody& body) {
             const Value t = body.builder().Name("t", Tanh(body.carried(0)));
             body.Next(
                 0, Cond(body.builder(), body.whole(0), {t}, {Sine, Sine})[0]);
           });
       g.Output("y", run.carried[0]);
     },
     {"+x",
      "+flag",
      "+y",
      "+workspace of \"y\"",
      "y = loop x,flag",
      "{ loop, x to cond_1 in one place",
      "+t",
      "t = tanh x^x",
      "cond_1^cond_1 = cond flag^flag,t",
      "{ branch0",
      "sin_1^sin_1 = sin t^t",
      "-t",
      "}",
      "{ branch1",
      "sin_1^sin_1 = sin t^t",
      "-t",
      "}",
      "}",
      "-workspace of \"y\"",
      "-y",
      "-flag",
      "-x"},
     4},
};

TEST_CASE("what is live where in small programs, by hand") {
  for (const Program& program : kPrograms) {
    INFO(std::string(program.what));
    GraphBuilder g("net");
    const Value x = Input(g, "x");
    const Value flag = Flag(g, "flag");
    program.build(g, x, flag);
    const Graph graph = Finish(g);
    CHECK(StreamText(graph) == Text(program.stream));
    const Plan plan = PlanOf(graph);
    CHECK(plan.arena_bytes() == program.slots * kSlot);
    const Bytes bound = program.bound < 0 ? program.slots : program.bound;
    CHECK(plan.lower_bound == bound * kSlot);
  }
}

}  // namespace
}  // namespace stowage
