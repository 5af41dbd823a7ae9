#include "planner/lifetimes.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"

namespace stowage {
namespace {

// The buffer of the value or output called `name`.
const LiveBuffer& BufferOf(const Graph& graph, const Lifetimes& lifetimes,
                           std::string_view name) {
  const auto id = graph.Find(name);
  REQUIRE(id.has_value());
  return lifetimes.buffers[static_cast<size_t>(
      lifetimes.buffer_of[static_cast<size_t>(*id)])];
}

bool Share(const Graph& graph, const Lifetimes& lifetimes, std::string_view a,
           std::string_view b) {
  return &BufferOf(graph, lifetimes, a) == &BufferOf(graph, lifetimes, b);
}

Graph Finish(GraphBuilder& g) {
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

TEST_CASE("leaves persist, activations die after their last reader") {
  GraphBuilder g("g");
  Value x = g.Input("x", DType::kF32, {4, 4});
  Value w = g.Param("w", DType::kF32, {4, 4});
  Value a = g.Name("a", MatMul(x, w));  // time 0
  Value b = g.Name("b", MatMul(a, w));  // time 1
  Value c = g.Name("c", MatMul(a, b));  // time 2: the last to read a and b
  g.Output("out", MatMul(c, w));        // time 3
  const Graph graph = Finish(g);
  const Lifetimes lifetimes = ComputeLifetimes(graph, {});
  const auto expect = [&](std::string_view name, Region region, Time lower,
                          Time upper) {
    INFO(name);
    CHECK(BufferOf(graph, lifetimes, name).region == region);
    CHECK(BufferOf(graph, lifetimes, name).lower == lower);
    CHECK(BufferOf(graph, lifetimes, name).upper == upper);
  };
  // Four nodes; the caller reads at time 4, so what survives ends at 5.
  expect("x", Region::kIo, 0, 5);
  expect("w", Region::kWeights, 0, 5);
  expect("a", Region::kActivations, 0, 3);
  expect("b", Region::kActivations, 1, 3);
  expect("c", Region::kActivations, 2, 4);
  expect("out", Region::kActivations, 3, 5);
  CHECK(lifetimes.in_place == 0);
}

TEST_CASE("a view lives in its root and keeps it alive") {
  GraphBuilder g("g");
  Value x = g.Input("x", DType::kF32, {4, 4});
  Value a = g.Name("a", MatMul(x, x));        // time 0
  Value view = g.Name("view", Transpose(a));  // time 1
  Value b = g.Name("b", MatMul(x, x));        // time 2
  g.Output("out", MatMul(view, b));           // time 3
  const Graph graph = Finish(g);
  const Lifetimes lifetimes = ComputeLifetimes(graph, {});
  CHECK(Share(graph, lifetimes, "a", "view"));
  CHECK(BufferOf(graph, lifetimes, "a").upper == 4);
  CHECK(lifetimes.views == 1);
}

TEST_CASE("an elementwise result takes over an operand that dies there") {
  GraphBuilder g("g");
  Value x = g.Input("x", DType::kF32, {4, 4});
  Value a = g.Name("a", MatMul(x, x));
  Value b = g.Name("b", Relu(a));
  g.Output("out", MatMul(b, b));
  const Graph graph = Finish(g);
  SUBCASE("when allowed") {
    const Lifetimes lifetimes = ComputeLifetimes(graph, {});
    CHECK(Share(graph, lifetimes, "a", "b"));
    CHECK(lifetimes.in_place == 1);
    CHECK(BufferOf(graph, lifetimes, "b").lower == 0);
    CHECK(BufferOf(graph, lifetimes, "b").upper == 3);
  }
  SUBCASE("not when switched off") {
    const Lifetimes lifetimes =
        ComputeLifetimes(graph, {.in_place = false, .workspace = {}});
    CHECK_FALSE(Share(graph, lifetimes, "a", "b"));
    CHECK(lifetimes.in_place == 0);
  }
}

TEST_CASE("nothing is overwritten that is still wanted") {
  GraphBuilder g("g");
  Value x = g.Input("x", DType::kF32, {4, 4});
  Value w = g.Param("w", DType::kF32, {4, 4});
  SUBCASE("an operand read later") {
    Value a = g.Name("a", MatMul(x, x));
    Value b = g.Name("b", Relu(a));
    g.Output("out", MatMul(a, b));
  }
  SUBCASE("an input") { g.Output("b", Relu(g.Input("a", DType::kF32, {4}))); }
  SUBCASE("a param") { g.Output("b", Relu(g.Param("a", DType::kF32, {4}))); }
  SUBCASE("an output, even by the last node") {
    Value a = g.Name("a", MatMul(x, x));
    g.Output("a", a);
    g.Output("b", Relu(a));
  }
  SUBCASE("an operand that is also read through a view") {
    Value a = g.Name("a", MatMul(x, x));
    g.Output("b", Add(a, Transpose(a)));
  }
  SUBCASE("a view that covers only part of its root") {
    Value a = g.Name("a", MatMul(x, x));
    g.Output("b", Relu(Slice(a, 0, 0, 2)));
  }
  SUBCASE("an operand that is broadcast") {
    Value a = g.Name("a", MatMul(Slice(x, 0, 0, 1), x));
    g.Output("b", Relu(BroadcastTo(a, {4, 4})));
  }
  SUBCASE("an operand of a product") {
    g.Output("b", MatMul(g.Name("a", MatMul(x, x)), w));
  }
  const Graph graph = Finish(g);
  const Lifetimes lifetimes = ComputeLifetimes(graph, {});
  CHECK_FALSE(Share(graph, lifetimes, "a", "b"));
}

TEST_CASE("an update writes in its param's slot") {
  GraphBuilder g("g");
  Value w = g.Param("w", DType::kF32, {4});
  Value lr = g.Input("lr", DType::kF32, {});
  Value grad = g.Name("grad", MulScalar(w, 2));
  g.Name("w.new", SgdUpdate(w, grad, lr, Value(), 0));
  const Graph graph = Finish(g);
  const Lifetimes lifetimes = ComputeLifetimes(graph, {});
  CHECK(Share(graph, lifetimes, "w", "w.new"));
  CHECK(BufferOf(graph, lifetimes, "w").region == Region::kWeights);
}

TEST_CASE("scratch is a buffer that lives for its node alone") {
  GraphBuilder g("g");
  Value x = g.Input("x", DType::kF32, {4, 4});
  Value a = MatMul(x, x);
  g.Output("out", MatMul(a, a));
  const Graph graph = Finish(g);
  const Lifetimes lifetimes = ComputeLifetimes(
      graph, {.in_place = true, .workspace = [](const Graph&, const Node& n) {
                return n.op == OpKind::kMatMul ? Bytes{100} : Bytes{0};
              }});
  REQUIRE(lifetimes.workspace_of[1] >= 0);
  const LiveBuffer& scratch =
      lifetimes.buffers[static_cast<size_t>(lifetimes.workspace_of[1])];
  CHECK(scratch.region == Region::kWorkspace);
  CHECK(scratch.size == 100);
  CHECK(scratch.lower == 1);
  CHECK(scratch.upper == 2);
}

TEST_CASE("a saved value dies with its last reader, an unread result at once") {
  GraphBuilder g("g");
  Value s = g.Saved("s", DType::kF32, {6});
  const auto pieces = Split(Exp(s), 0, {2, 4});  // times 0 and 1
  Value gamma = g.Param("gamma", DType::kF32, {4});
  Value y = LayerNorm(pieces[1], gamma, gamma);  // time 2
  g.Output("out", MulScalar(y, 2));
  const Graph graph = Finish(g);
  const Lifetimes lifetimes =
      ComputeLifetimes(graph, {.in_place = false, .workspace = {}});
  CHECK(BufferOf(graph, lifetimes, "s").region == Region::kActivations);
  CHECK(BufferOf(graph, lifetimes, "s").upper == 1);
  const Node& norm = graph.node(2);
  REQUIRE(norm.op == OpKind::kLayerNorm);
  const auto mean = static_cast<size_t>(norm.results[1]);
  const auto buffer = static_cast<size_t>(lifetimes.buffer_of[mean]);
  CHECK(lifetimes.buffers[buffer].lower == 2);
  CHECK(lifetimes.buffers[buffer].upper == 3);
}

constexpr Region kOwn = Region::kActivations;

// Of nine nodes, so that results live until time 10.
Plan PlanWith(std::vector<PlannedBuffer> buffers) {
  Plan plan;
  plan.alignment = 16;
  plan.workspace_of.assign(9, -1);
  plan.buffers = std::move(buffers);
  return plan;
}

// "x+16" of what lies within x, 16 bytes from its first; "" of what stays.
std::string Within(const Plan& plan, std::string_view name) {
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.name != name) continue;
    if (buffer.within < 0) return "";
    CHECK(buffer.region == Region::kOutside);
    return plan.buffers[static_cast<size_t>(buffer.within)].name + "+" +
           std::to_string(buffer.offset);
  }
  return "none of this name";
}

TEST_CASE("what is made later lies in a dead operand, side by side") {
  Plan plan = PlanWith({{"x", Region::kOutside, 0, 40, 0, 4},
                        {"kept", Region::kOutside, 0, 64, 0, 10},
                        {"large", kOwn, 0, 48, 5, 6},
                        {"a", kOwn, 0, 16, 5, 10},
                        {"b", kOwn, 0, 12, 4, 9},
                        {"c", kOwn, 0, 12, 6, 10},
                        {"d", kOwn, 0, 12, 9, 10},
                        {"early", kOwn, 0, 4, 3, 5},
                        {"narrow", kOwn, 0, 8, 6, 7},
                        {"scratch", Region::kWorkspace, 0, 4, 5, 6}});
  PlaceInHoles(&plan);
  CHECK(Within(plan, "large") == "");  // x has 40 bytes
  CHECK(Within(plan, "a") == "x+0");
  CHECK(Within(plan, "b") == "x+16");
  CHECK(Within(plan, "c") == "");      // 8 are left, padding counted
  CHECK(Within(plan, "d") == "x+16");  // where b was
  CHECK(Within(plan, "early") == "");  // x is read at 3
  CHECK(Within(plan, "narrow") == "x+32");
  CHECK(Within(plan, "scratch") == "");
}

TEST_CASE(
    "what dies before a result is written lies there, if nowhere smaller") {
  Plan plan = PlanWith({{"unread", Region::kOutside, 0, 48, 0, 0},
                        {"y", Region::kOutside, 0, 32, 7, 10},
                        {"before", kOwn, 0, 16, 0, 7},
                        {"beyond", kOwn, 0, 32, 1, 8},
                        {"third", kOwn, 0, 16, 2, 6}});
  PlaceInHoles(&plan);
  CHECK(Within(plan, "beyond") == "unread+0");
  CHECK(Within(plan, "before") == "y+0");
  CHECK(Within(plan, "third") == "y+16");
  CHECK(IsDyingOperand(plan, plan.buffers[0]));
  CHECK_FALSE(IsDyingOperand(plan, plan.buffers[1]));
  CHECK_FALSE(IsDyingOperand(plan, plan.buffers[2]));
}

}  // namespace
}  // namespace stowage
