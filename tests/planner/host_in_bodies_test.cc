// What bodies of loops have in the host's memory: where it lies, worked out by hand, and
// what the judge says where it is wrong.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "planner/plan.h"
#include "planner/stream.h"
#include "planner/validate_plan.h"
#include "tests/planner/planned_bodies.h"

namespace stowage {
namespace {

using Lines = std::vector<std::string>;

// One event a line, so that a difference shows.
std::string Text(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST_CASE("what a body keeps on the host lies in its node's part of that") {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value xs = g.Input("xs", DType::kF32, {3, 4});
  const Value outer = g.Name("outer", Offload(x));
  const LoopResults run = Loop(g, 3, {.sliced = {xs}}, [](LoopBody& body) {
    GraphBuilder& b = body.builder();
    const Value a = b.Name("a", Tanh(body.sliced(0)));
    const Value kept = b.Name("kept", Offload(a));
    const Value wide =
        b.Name("wide",
               Copy(BroadcastTo(Reshape(Sin(body.sliced(0)), {1, 4}), {2, 4})));
    body.Sum(b.Name("y", Add(b.Name("again", Reload(kept)),
                             b.Name("r", ReduceSum(wide, {0})))));
  });
  g.Output("z", Add(run.summed[0], Reload(outer)));
  const Graph graph = Finish(g);
  const Plan plan = PlanOf(graph);
  CHECK(plan.host_bytes() == 2 * kSlot);
  CHECK(plan.bodies[0].plan.host_bytes() == kSlot);
  // Of all iterations in the same bytes, behind what is there across the loop.
  Lines on_host;
  for (const StreamEvent& event : MakeStream(graph, plan)) {
    const auto tell = [&](std::string_view what, const StreamPlace& place) {
      if (!place.on_host) return;
      on_host.push_back(StrCat(what, " @", place.address, "+", place.bytes));
    };
    tell(StrCat(StreamEventName(event.kind), " ", event.name), event.place);
    for (const StreamValue& value : event.results) {
      tell(StrCat(OpName(event.op), " ", value.name), value.place);
    }
    for (const StreamValue& value : event.operands) {
      tell(StrCat(OpName(event.op), " of ", value.name), value.place);
    }
    tell(StrCat("scratch of ", OpName(event.op)), event.host_scratch);
  }
  CHECK(Text(on_host) ==
        Text({"allocate outer @0+16", "offload outer @0+16",
              "allocate host workspace of \"loop_1\" @16+16",
              "scratch of loop @16+16", "allocate kept @16+16",
              "offload kept @16+16", "reload of kept @16+16",
              "kill kept @16+16", "kill host workspace of \"loop_1\" @16+16",
              "reload of outer @0+16", "kill outer @0+16"}));
}

// A loop, an iteration of which has two values on the host at a time, and a value that is there
// across the loop.
Graph HostSample() {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value xs = g.Input("xs", DType::kF32, {3, 4});
  const Value outer = g.Name("outer", Offload(Tanh(x)));
  const LoopResults run = Loop(g, 3, {.sliced = {xs}}, [](LoopBody& body) {
    GraphBuilder& b = body.builder();
    const Value a = b.Name("a", Offload(b.Name("own", Tanh(body.sliced(0)))));
    const Value c = b.Name("c", Offload(Sin(body.sliced(0))));
    body.Sum(Add(Reload(a), Reload(c)));
  });
  g.Output("y", Add(run.summed[0], Reload(outer)));
  return Finish(g);
}

TEST_CASE("the judge finds what is wrong with what a body has on the host") {
  const Graph graph = HostSample();
  const Plan good = PlanOf(graph);
  const NodeId loop = graph.value(*graph.Find("y")).producer - 2;
  REQUIRE(graph.node(loop).op == OpKind::kLoop);
  const Graph& body = *BodiesOf(graph.node(loop)).front();
  CHECK(good.bodies[0].plan.host_bytes() == 2 * kSlot);
  CHECK(good.host_bytes() == 3 * kSlot);
  const auto scratch = [&](Plan& p) -> PlannedBuffer& {
    return p.buffers[static_cast<size_t>(
        p.host_workspace_of[static_cast<size_t>(loop)])];
  };
  const auto inner = [&](Plan& p, const char* value) -> PlannedBuffer& {
    Plan& plan = p.bodies[0].plan;
    return plan.buffers[static_cast<size_t>(
        plan.buffer_of[static_cast<size_t>(*body.Find(value))])];
  };
  struct Break {
    const char* what;
    std::function<void(Plan&)> change;
  };
  const Break breaks[] = {
      {"no room on the host",
       [&](Plan& p) { p.host_workspace_of[static_cast<size_t>(loop)] = -1; }},
      {"too little room", [&](Plan& p) { scratch(p).size -= kSlot; }},
      {"room in the arena",
       [&](Plan& p) {
         p.host_workspace_of[static_cast<size_t>(loop)] =
             p.buffer_of[static_cast<size_t>(*graph.Find("y"))];
       }},
      {"room of no buffer",
       [&](Plan& p) { p.host_workspace_of[static_cast<size_t>(loop)] = 99; }},
      {"no rooms at all", [](Plan& p) { p.host_workspace_of.clear(); }},
      {"room where another value is",
       [&](Plan& p) {
         const int32_t outer =
             p.buffer_of[static_cast<size_t>(*graph.Find("outer"))];
         scratch(p).offset = p.buffers[static_cast<size_t>(outer)].offset;
       }},
      {"room behind the end", [&](Plan& p) { scratch(p).offset += kSlot; }},
      {"room that is not aligned", [&](Plan& p) { scratch(p).offset += 4; }},
      {"two values in the same bytes",
       [&](Plan& p) { inner(p, "a").offset = inner(p, "c").offset; }},
      {"more of the host than there is",
       [](Plan& p) { p.bodies[0].plan.regions.host_offload += kSlot; }},
      {"an offloaded value in the arena",
       [&](Plan& p) { inner(p, "a").region = Region::kActivations; }},
      {"an offloaded value outside",
       [&](Plan& p) { inner(p, "a").region = Region::kOutside; }},
      {"what is computed on the host",
       [&](Plan& p) { inner(p, "own").region = Region::kHostOffload; }},
  };
  for (const Break& broken : breaks) {
    INFO(std::string(broken.what));
    Plan plan = good;
    broken.change(plan);
    CHECK_FALSE(ValidatePlan(graph, plan).empty());
  }
}

TEST_CASE("what a branch offloads does not lie in an operand that has died") {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {4, 4});
  const Value flag = g.Input("flag", DType::kBool, {});
  const auto body = [](CondBody& of) {
    GraphBuilder& b = of.builder();
    const Value r = ReduceSum(of.operand(0), {0, 1});
    const Value kept = b.Name("kept", Offload(r));
    const Value other = Exp(r);
    return std::vector{Add(other, Reload(kept))};
  };
  const Value wide = g.Name("wide", Tanh(x));
  g.Output("y", Cond(g, flag, {wide}, {body, body})[0]);
  const Graph graph = Finish(g);
  Plan plan = PlanOf(graph);
  const Node& cond = graph.node(graph.num_nodes() - 1);
  REQUIRE(cond.op == OpKind::kCond);
  const Graph& first = *BodiesOf(cond).front();
  Plan& inner = plan.bodies[0].plan;
  const int32_t leaf =
      inner.buffer_of[static_cast<size_t>(LeavesOf(first).front())];
  PlannedBuffer& kept = inner.buffers[static_cast<size_t>(
      inner.buffer_of[static_cast<size_t>(*first.Find("kept"))])];
  REQUIRE(inner.buffers[static_cast<size_t>(leaf)].upper <= kept.lower);
  kept.region = Region::kOutside;
  kept.within = leaf;
  kept.offset = 3 * kSlot;  // where nothing else is
  const std::vector<std::string> wrong = ValidatePlan(graph, plan);
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0].find("\"kept\" is in region outside, it belongs in "
                      "host_offload") != std::string::npos);
}

}  // namespace
}  // namespace stowage
