#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "report/text.h"
#include "tests/report/example.h"

namespace stowage {
namespace {

TEST_CASE("the text of a stream has a line for every event, in columns") {
  CHECK(
      ToStreamText(testing::ExampleGraph(), testing::ExamplePlan()) ==
      R"(stream of "example <1>": arena 80 bytes, host 0 bytes, slots of 16 bytes
time  event     memory  address  bytes  what
   0  allocate  arena         0     16  weights w
   0  allocate  arena        16     16  io x
   0  allocate  arena        32     16  activations h
   0  launch    -             -      -  mul h @32+16 <- w @0+16, x @16+16
   1  allocate  arena        48     16  activations "r & s"
   1  launch    -             -      -  relu "r & s" @48+16 <- h @32+16
   2  kill      arena        32     16  activations h
   2  allocate  arena        32      4  activations loss
   2  allocate  arena        64     16  workspace "workspace of \"loss\""
   2  launch    -             -      -  reduce_sum loss @32+4 <- "r & s" @48+16 with scratch @64+16
   3  kill      arena        48     16  activations "r & s"
   3  kill      arena        32      4  activations loss
   3  kill      arena        64     16  workspace "workspace of \"loss\""
   4  kill      arena        16     16  io x
   4  kill      arena         0     16  weights w
)");
}

TEST_CASE("roots of views, results in place and places on the host are told") {
  GraphBuilder g("host");
  const Value x = g.Input("x", DType::kF32, {1000, 2});
  const Value e = g.Name("e", Exp(x));
  const Value last = g.Name("last", Slice(e, 0, 999, 1000));
  g.Output("y", g.Name("y", Reload(g.Name("kept", Offload(Relu(last))))));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<Plan> plan = PlanMemory(*graph, {.alignment = 64});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  // x and its exponentials take 8000 bytes each; the last of them are a row of
  // two floats. In 16000 bytes the columns are wider than their titles.
  const std::string text = ToStreamText(*graph, *plan);
  INFO(text);
  const auto has = [&](const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(" <- last of e @15992+8\n"));
  CHECK(has("allocate  host          0      8  host_offload kept\n"));
  CHECK(has("offload kept @host:0+8 <- "));
  CHECK(has("reload y @"));
  CHECK(has(" <- kept @host:0+8\n"));
}

TEST_CASE("what dies in a branch, and what lies there then, is told") {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value flag = g.Input("flag", DType::kBool, {});
  const Value t = g.Name("t", Tanh(x));
  const auto sine = [](CondBody& body) {
    return std::vector{Sin(body.operand(0))};
  };
  const auto more = [](CondBody& body) {
    GraphBuilder& b = body.builder();
    const Value sum = b.Name("sum", ReduceSum(body.operand(0)));
    const Value own = b.Name("own", Copy(BroadcastTo(sum, {4})));
    const Value rows = Copy(BroadcastTo(Reshape(own, {1, 4}), {2, 4}));
    return std::vector{ReduceSum(rows, {0})};
  };
  g.Output("y", Cond(g, flag, {t}, {sine, more})[0]);
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<Plan> plan = PlanMemory(*graph, {.alignment = 16});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  const std::string text = ToStreamText(*graph, *plan);
  INFO(text);
  const auto lines_with = [&](const char* part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos;
         at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  };
  CHECK(lines_with("kill      outside        0     16    outside t\n") == 2);
  CHECK(lines_with("allocate  outside        0     16    outside own at t\n") ==
        1);
  CHECK(lines_with("copy own @outside:0+16 at t <- ") == 1);
  CHECK(lines_with("kill      outside        0     16    outside own at t\n") ==
        1);
}

}  // namespace
}  // namespace stowage
