#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/ops.h"
#include "ir/text.h"

namespace stowage {
namespace {

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

}  // namespace
}  // namespace stowage
