#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/ops.h"
#include "ir/text.h"

namespace stowage {
namespace {

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

}  // namespace
}  // namespace stowage
