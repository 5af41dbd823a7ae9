#include "ir/reorder.h"

#include <cstddef>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"

namespace stowage {
namespace {

template <typename... Args>
Error Fail(const Args&... args) {
  return Error{ErrorCode::kInvalidArgument, StrCat("[reorder] ", args...)};
}

Status CheckOrder(const Graph& graph, std::span<const NodeId> order) {
  const auto count = static_cast<size_t>(graph.num_nodes());
  if (order.size() != count) {
    return Fail("the order has ", order.size(), " nodes; graph ",
                Quoted(graph.name()), " has ", count);
  }
  std::vector<bool> done(count, false);
  for (const NodeId id : order) {
    if (id < 0 || id >= graph.num_nodes()) {
      return Fail("there is no node ", id, "; graph ", Quoted(graph.name()),
                  " has ", count);
    }
    if (done[static_cast<size_t>(id)]) {
      return Fail("node ", id, " (", graph.Describe(id),
                  ") is in the order twice; each node must be there once");
    }
    for (const ValueId input : graph.node(id).inputs) {
      const ValueInfo& info = graph.value(input);
      if (info.is_leaf() || done[static_cast<size_t>(info.producer)]) continue;
      return Fail("node ", id, " (", graph.Describe(id), ") reads ",
                  Quoted(info.name), " before node ", info.producer,
                  " makes it; producers must come first");
    }
    done[static_cast<size_t>(id)] = true;
  }
  return {};
}

}  // namespace

Result<Graph> Reorder(const Graph& graph, std::span<const NodeId> order) {
  STOWAGE_RETURN_IF_ERROR(CheckOrder(graph, order));
  GraphBuilder g(graph.name());
  std::vector<Value> copies(static_cast<size_t>(graph.num_values()));
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    if (!info.is_leaf()) continue;
    copies[static_cast<size_t>(id)] = g.LeafLike(info);
  }
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    std::vector<Value> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(copies[static_cast<size_t>(input)]);
    }
    std::vector<std::string> names;
    for (const ValueId result : node.results) {
      names.push_back(graph.value(result).name);
    }
    g.SetOrigin(node.phase, node.origin,
                graph.value(node.results.front()).source);
    const std::vector<Value> results =
        g.EmitNamed(node.op, inputs, node.attrs, names);
    if (g.error()) return *g.error();
    for (size_t r = 0; r < node.results.size(); ++r) {
      copies[static_cast<size_t>(node.results[r])] = results[r];
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    g.Output(output.name, copies[static_cast<size_t>(output.value)]);
  }
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    g.SetRole(copies[static_cast<size_t>(id)], graph.value(id).role);
  }
  return g.Finish();
}

}  // namespace stowage
