#include "planner/lifetimes.h"

#include <doctest/doctest.h>

#include "ir/builder.h"
#include "ir/ops.h"

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

}  // namespace
}  // namespace stowage
