#include <doctest/doctest.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "ir/uses.h"

namespace stowage {
namespace {

using Nodes = std::vector<NodeId>;

Graph Example() {
  GraphBuilder g("example");
  const Value x = g.Input("x", DType::kF32, {8, 4});
  const Value w = g.Param("w", DType::kF32, {4, 4}, Init::Normal(0.5));
  const Value a = g.Name("a", MatMul(x, w));
  g.SetOrigin(Phase::kBackward, "a");
  const Value b = g.Name("a~recomputed", Relu(a));  // a name taken beforehand
  g.Output("end", ReduceSum(b, {0, 1}));
  Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  return std::move(*graph);
}

TEST_CASE("every node run once, in order, gives the same graph") {
  const Graph graph = Example();
  Rewriter to(graph);
  std::vector<Value> values(static_cast<size_t>(graph.num_values()));
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (graph.value(id).is_leaf())
      values[static_cast<size_t>(id)] = to.leaf(id);
  }
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    std::vector<Value> operands;
    for (const ValueId input : graph.node(n).inputs) {
      operands.push_back(values[static_cast<size_t>(input)]);
    }
    values[static_cast<size_t>(graph.node(n).results[0])] =
        to.Run(n, operands)[0];
  }
  const auto rewritten = to.Finish();
  REQUIRE_MESSAGE(rewritten.ok(), rewritten.error().message);
  CHECK(ToText(*rewritten) == ToText(graph));
}

TEST_CASE("a further run has fresh names, and outputs are of the first") {
  const Graph graph = Example();
  Rewriter to(graph);
  const std::vector<Value> leaves = {to.leaf(*graph.Find("x")),
                                     to.leaf(*graph.Find("w"))};
  to.Run(0, leaves);
  const Value again = to.Run(0, leaves)[0];
  const Value third = to.Run(0, leaves)[0];
  const Value b = to.Run(1, std::vector<Value>{again})[0];
  const Value end = to.Run(2, std::vector<Value>{b})[0];
  to.Run(2, std::vector<Value>{b});
  CHECK(end.ok());
  CHECK(third.ok());
  const auto rewritten = to.Finish();
  REQUIRE_MESSAGE(rewritten.ok(), rewritten.error().message);
  CHECK(rewritten->num_nodes() == 6);
  // "a~recomputed" is a name of the old graph, whose node was yet to come.
  CHECK(rewritten->value(rewritten->node(1).results[0]).name ==
        "a~recomputed2");
  CHECK(rewritten->value(rewritten->node(2).results[0]).name ==
        "a~recomputed3");
  CHECK(rewritten->node(3).inputs[0] == rewritten->node(1).results[0]);
  CHECK(rewritten->node(3).phase == Phase::kBackward);
  CHECK(rewritten->node(3).origin == "a");
  CHECK(rewritten->outputs()[0].value == rewritten->node(4).results[0]);
  CHECK(rewritten->value(*rewritten->Find("w")).init == Init::Normal(0.5));
}

// x, w -> 0: a = mul(x, w); 1: new w; 2: b = relu(x); 3: sum = add(a, b)
Graph Diamond() {
  GraphBuilder g("diamond");
  const Value x = g.Input("x", DType::kF32, {8});
  const Value lr = g.Input("lr", DType::kF32, {});
  const Value w = g.Param("w", DType::kF32, {8}, Init::Normal(0.5));
  const Value a = g.Name("a", Mul(x, w));
  g.SetOrigin(Phase::kUpdate, "w");
  g.Name("w.new", SgdUpdate(w, x, lr, Value(), 0.25));
  g.SetOrigin(Phase::kBackward, "x");
  const Value b = g.Name("b", Relu(x));
  g.SetRole(b, Role::kGradient);
  g.SetOrigin(Phase::kForward, "");
  const Value sum = g.Name("total", Add(a, b));
  g.Output("sum", sum);
  g.Output("sum again", a);
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

std::string ErrorOf(const std::vector<NodeId>& order) {
  const auto result = Reorder(Diamond(), order);
  REQUIRE(!result.ok());
  CHECK(result.error().code == ErrorCode::kInvalidArgument);
  return result.error().message;
}

TEST_CASE("the order there is gives an equal graph") {
  const Graph graph = Diamond();
  const auto same = Reorder(graph, std::vector<NodeId>{0, 1, 2, 3});
  REQUIRE_MESSAGE(same.ok(), same.error().message);
  CHECK(Equal(*same, graph));
}

TEST_CASE("nodes move with all that they are, and values keep their names") {
  const Graph graph = Diamond();
  const auto other = Reorder(graph, std::vector<NodeId>{2, 0, 3, 1});
  REQUIRE_MESSAGE(other.ok(), other.error().message);
  CHECK(other->num_values() == graph.num_values());
  for (const ValueInfo& value : graph.values()) {
    INFO(value.name);
    const auto id = other->Find(value.name);
    REQUIRE(id.has_value());
    CHECK(other->value(*id).type == value.type);
    CHECK(other->value(*id).role == value.role);
    CHECK(other->value(*id).init == value.init);
  }
  CHECK(other->node(0).op == OpKind::kRelu);
  CHECK(other->node(0).phase == Phase::kBackward);
  CHECK(other->node(0).origin == "x");
  CHECK(other->node(3).op == OpKind::kSgdUpdate);
  CHECK(other->node(3).attrs == graph.node(1).attrs);
  CHECK(other->node(3).origin == "w");
  REQUIRE(other->outputs().size() == 2);
  CHECK(other->outputs()[0].name == "sum");
  CHECK(other->value(other->outputs()[0].value).name == "total");
  CHECK(other->Find("sum again") == other->Find("a"));
  // And back.
  const auto back = Reorder(*other, std::vector<NodeId>{1, 3, 0, 2});
  REQUIRE(back.ok());
  CHECK(ToText(*back) == ToText(graph));
}

TEST_CASE("what is no order is refused") {
  CHECK(ErrorOf({0, 1, 2}) ==
        "[reorder] the order has 3 nodes; graph \"diamond\" has 4");
  CHECK(ErrorOf({0, 1, 2, 4}) ==
        "[reorder] there is no node 4; graph \"diamond\" has 4");
  CHECK(ErrorOf({0, 1, -1, 2}) ==
        "[reorder] there is no node -1; graph \"diamond\" has 4");
  CHECK(ErrorOf({0, 1, 0, 2}) ==
        "[reorder] node 0 (\"a\") is in the order twice; each node must be "
        "there once");
  CHECK(ErrorOf({0, 3, 1, 2}) ==
        "[reorder] node 3 (\"total\") reads \"b\" before node 2 makes it; "
        "producers must come first");
  // The update would overwrite what the product still reads.
  CHECK(ErrorOf({1, 0, 2, 3})
            .find("which node 0 (sgd_update \"w.new\") "
                  "overwrites") != std::string::npos);
}

// Nodes: 0 add, 1 reshape, 2 neg, 3 mul, 4 sin, 5 sgd_update.
constexpr std::string_view kStep = R"(stowage-ir 1
graph "step" {
  x: f32(4) = input
  lr: f32() = input
  unused: f32(4) = input
  w: f32(4) = param
  h: f32(4) = add(x, w)
  v: f32(2, 2) = reshape(h) {shape=[2, 2]}
  r: f32(2, 2) = neg(v)
  d: f32(4) gradient = mul(h, h) @backward("h")
  s: f32(2, 2) = sin(v)
  w2: f32(4) = sgd_update(w, d, lr) {decay=0.0} @update("w")
  output "new" = w2
  output "flat" = v
}
)";

struct Step {
  Graph graph = *ParseGraph(kStep);
  Uses uses = Uses(graph, ComputeLayouts(graph));

  ValueId id(std::string_view name) const { return *graph.Find(name); }
};

std::vector<NodeId> List(std::span<const NodeId> nodes) {
  return {nodes.begin(), nodes.end()};
}

TEST_CASE("a root is used by who reads it, reads a view of it, or takes one") {
  const Step step;
  CHECK(List(step.uses.uses(step.id("h"))) == Nodes{1, 2, 3, 4});
  CHECK(List(step.uses.readers(step.id("h"))) == Nodes{2, 3, 4});
  CHECK(List(step.uses.uses(step.id("w"))) == Nodes{0, 5});
  CHECK(step.uses.uses(step.id("unused")).empty());
}

TEST_CASE("readers from the first in a later phase on are later readers") {
  const Step step;
  CHECK(List(step.uses.forward_readers(step.id("h"))) == Nodes{2});
  CHECK(List(step.uses.later_readers(step.id("h"))) == Nodes{3, 4});
  CHECK(List(step.uses.forward_readers(step.id("w"))) == Nodes{0});
  CHECK(step.uses.later_readers(step.id("x")).empty());
  CHECK(step.uses.forward_readers(step.id("d")).empty());
  CHECK(List(step.uses.later_readers(step.id("d"))) == Nodes{5});
}

TEST_CASE("a result is last used where it is made, if nothing reads it") {
  const Step step;
  CHECK(step.uses.last_use(step.id("h")) == 4);
  CHECK(step.uses.last_reader(step.id("h")) == 4);
  CHECK(step.uses.last_use(step.id("s")) == 4);
  CHECK(step.uses.last_reader(step.id("s")) == kNoNode);
  CHECK(step.uses.last_use(step.id("x")) == 0);
  CHECK(step.uses.last_use(step.id("unused")) == kNoNode);
}

TEST_CASE("an update overwrites a content, not what it makes of it") {
  const Step step;
  CHECK(step.uses.overwriter(step.id("w")) == 5);
  CHECK(step.uses.overwriter(step.id("h")) == kNoNode);
}

TEST_CASE("the root of an output is one, and what its update makes") {
  const Step step;
  CHECK(step.uses.is_output(step.id("h")));  // by its view
  CHECK(step.uses.is_output(step.id("w")));  // by its new content
  CHECK(!step.uses.is_output(step.id("d")));
}

}  // namespace
}  // namespace stowage
