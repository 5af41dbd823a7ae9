#include "planner/stream.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"

namespace stowage {
namespace {

Graph Finished(GraphBuilder& g) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

std::string Text(const StreamPlace& place) {
  return StrCat(place.on_host ? "host " : "", place.address, "+", place.bytes);
}

std::string Text(const StreamValue& value) {
  return StrCat(value.name, "/", value.root, " ", Text(value.place),
                value.in_place ? " in place" : "");
}

// "2 allocate r 48+16", "2 launch relu: r/r 48+16 <- s/w 4+20".
std::string Lines(const std::vector<StreamEvent>& events, const Plan& plan) {
  std::string lines;
  for (const StreamEvent& event : events) {
    std::string line =
        StrCat(event.time, " ", StreamEventName(event.kind), " ");
    if (event.kind == StreamEventKind::kLaunch) {
      line += StrCat(OpName(event.op), ":");
      for (const StreamValue& value : event.results) {
        line += StrCat(" ", Text(value));
      }
      line += " <-";
      for (const StreamValue& value : event.operands) {
        line += StrCat(" ", Text(value));
      }
      if (event.scratch.bytes > 0) {
        line += StrCat(" scratch ", Text(event.scratch));
      }
    } else {
      line += StrCat(plan.buffers[static_cast<size_t>(event.buffer)].name, " ",
                     Text(event.place));
    }
    lines += line + "\n";
  }
  return lines;
}

// Two views of a weight, a result in place, a broadcast scalar, scratch. The
// reserved regions take 48 bytes; the span above is laid by hand:
//
//   offset  time 2  3  4  5  6
//     32                     S    scratch of "loss"
//     16                  m  m
//      0         r  r  r  r  l    "e" in the buffer of "r"; then the loss
struct Example {
  Graph graph;
  Plan plan;
};

Example MakeExample() {
  GraphBuilder g("example");
  const Value w = g.Param("w", DType::kF32, {2, 3});
  const Value c = g.Input("c", DType::kF32, {});
  const Value t = g.Name("t", Transpose(w));            // time 0
  const Value s = g.Name("s", Slice(t, 0, 1, 3));       // 1
  const Value r = g.Name("r", Relu(s));                 // 2
  const Value e = g.Name("e", Exp(r));                  // 3
  const Value k = g.Name("k", BroadcastTo(c, {2, 2}));  // 4
  const Value m = g.Name("m", Mul(e, k));               // 5
  g.Output("loss", g.Name("loss", ReduceSum(m)));       // 6
  const auto buffer = [](const char* name, Region region, Bytes offset,
                         Bytes size, Time lower, Time upper) {
    return PlannedBuffer{name, region, offset, size, lower, upper};
  };
  Plan plan;
  plan.alignment = 16;
  plan.regions = {.weights = 32, .io = 16, .activations = 32, .workspace = 16};
  plan.buffers = {buffer("w", Region::kWeights, 0, 24, 0, 8),
                  buffer("c", Region::kIo, 0, 4, 0, 8),
                  buffer("r", Region::kActivations, 0, 16, 2, 6),
                  buffer("m", Region::kActivations, 16, 16, 5, 7),
                  buffer("loss", Region::kActivations, 0, 4, 6, 8),
                  buffer("S", Region::kWorkspace, 32, 8, 6, 7)};
  plan.buffer_of = {0, 1, 0, 0, 2, 2, 1, 3, 4};  // w c t s r e k m loss
  plan.workspace_of = {-1, -1, -1, -1, -1, -1, 5};
  plan.host_workspace_of.assign(7, -1);
  return {Finished(g), plan};
}

TEST_CASE("a stream tells every event of a step laid by hand, in order") {
  const Example example = MakeExample();
  // s[i][j] is w[j][i + 1]: the floats 1, 2, 4 and 5 of w. All four elements of k
  // are the one of c.
  const std::string expected =
      "0 allocate w 0+24\n"
      "0 allocate c 32+4\n"
      "2 allocate r 48+16\n"
      "2 launch relu: r/r 48+16 <- s/w 4+20\n"
      "3 launch exp: e/e 48+16 in place <- r/r 48+16\n"
      "5 allocate m 64+16\n"
      "5 launch mul: m/m 64+16 <- e/e 48+16 k/c 32+4\n"
      "6 kill r 48+16\n"
      "6 allocate loss 48+4\n"
      "6 allocate S 80+8\n"
      "6 launch reduce_sum: loss/loss 48+4 <- m/m 64+16 scratch 80+8\n"
      "7 kill m 64+16\n"
      "7 kill S 80+8\n"
      "8 kill loss 48+4\n"
      "8 kill c 32+4\n"
      "8 kill w 0+24\n";
  CHECK(Lines(MakeStream(example.graph, example.plan), example.plan) ==
        expected);
}

TEST_CASE("a buffer that is never there has no events") {
  Example example = MakeExample();
  const size_t before = MakeStream(example.graph, example.plan).size();
  example.plan.buffers.push_back(
      {"nothing", Region::kActivations, 48, 16, 3, 3});
  CHECK(MakeStream(example.graph, example.plan).size() == before);
}

TEST_CASE("updates are in place of their roots, on the host as in the arena") {
  GraphBuilder g("update");
  const Value w = g.Param("w", DType::kF32, {4});
  const Value state = g.HostState("v", DType::kF32, {4});
  const Value dw = g.Input("dw", DType::kF32, {4});
  const Value lr = g.Input("lr", DType::kF32, {});
  const Value reloaded = g.Name("reloaded", Reload(state));
  const MomentumResults updated =
      MomentumUpdate(w, reloaded, dw, lr, Value(), 0.9, 0);
  g.Name("new w", updated.w);
  g.Name("new v", updated.velocity);
  g.Name("offloaded", OffloadUpdate(state, updated.velocity));
  const Graph graph = Finished(g);
  const Result<Plan> plan = PlanMemory(graph, {.alignment = 16});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  // In the arena w, dw and lr, each in a slot of 16, then what was reloaded.
  const std::string expected =
      "0 allocate w 0+16\n"
      "0 allocate dw 16+16\n"
      "0 allocate lr 32+4\n"
      "0 allocate v host 0+16\n"
      "0 allocate reloaded 48+16\n"
      "0 launch reload: reloaded/reloaded 48+16 <- v/v host 0+16\n"
      "1 launch momentum_update: new w/w 0+16 in place "
      "new v/reloaded 48+16 in place <- w/w 0+16 reloaded/reloaded 48+16 "
      "dw/dw 16+16 lr/lr 32+4\n"
      "2 launch offload_update: offloaded/v host 0+16 in place <- v/v host "
      "0+16 "
      "new v/reloaded 48+16\n"
      "3 kill reloaded 48+16\n"
      "4 kill v host 0+16\n"
      "4 kill lr 32+4\n"
      "4 kill dw 16+16\n"
      "4 kill w 0+16\n";
  CHECK(Lines(MakeStream(graph, *plan), *plan) == expected);
}

}  // namespace
}  // namespace stowage
