#include "ir/graph_copy.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"

namespace stowage {

Value DeclareLeaf(GraphBuilder& to, const ValueInfo& info, Role role) {
  ValueInfo leaf = {.name = info.name,
                    .type = info.type,
                    .role = role,
                    .source = info.source};
  if (role == Role::kParam || role == Role::kState) {
    leaf.init = info.init;
    leaf.on_host = info.on_host;
  }
  return to.LeafLike(leaf);
}

void GraphCopy::DeclareLeaf(ValueId id) {
  const ValueInfo& info = from_.value(id);
  Map(id, stowage::DeclareLeaf(to_, info, info.role));
}

void GraphCopy::DeclareLeaves() {
  for (ValueId id = 0; id < from_.num_values(); ++id) {
    if (from_.value(id).is_leaf() && !(*this)[id].ok()) DeclareLeaf(id);
  }
}

void GraphCopy::SetOrigin(NodeId id) {
  const Node& node = from_.node(id);
  to_.SetOrigin(node.phase, origin_ ? *origin_ : node.origin,
                from_.value(node.results.front()).source);
}

void GraphCopy::DeclareOutputs() {
  for (const GraphOutput& output : from_.outputs()) {
    to_.Output(output.name, (*this)[output.value]);
  }
}

void GraphCopy::CopyNode(NodeId id, const Attrs& attrs) {
  const Node& node = from_.node(id);
  std::vector<Value> inputs;
  for (const ValueId input : node.inputs) inputs.push_back((*this)[input]);
  SetOrigin(id);
  std::vector<Value> results = to_.Emit(node.op, inputs, attrs);
  results.resize(node.results.size());  // after an error there may be fewer
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueInfo& info = from_.value(node.results[r]);
    const std::string name = info.name + suffix_;
    // A later result may have taken this one's name as its fresh one.
    for (size_t later = r + 1; later < node.results.size(); ++later) {
      if (!results[later].ok() || to_.info(results[later]).name != name) {
        continue;
      }
      std::string aside = name + "_";
      while (to_.Find(aside)) aside += "_";
      to_.Name(aside, results[later]);
    }
    // Also if it happens to have the name, so that no output renames it.
    const std::optional<Value> holder = to_.Find(name);
    if (!holder || (results[r].ok() && holder->id() == results[r].id())) {
      to_.Name(name, results[r]);
    }
    // DeclareOutputs makes outputs of them.
    to_.SetRole(results[r],
                info.role == Role::kOutput ? Role::kActivation : info.role);
    Map(node.results[r], results[r]);
  }
}

Rewriter::Rewriter(const Graph& from)
    : from_(from),
      to_(from.name()),
      first_(static_cast<size_t>(from.num_values())) {
  for (ValueId id = 0; id < from.num_values(); ++id) {
    const ValueInfo& info = from.value(id);
    if (!info.is_leaf()) continue;
    first_[static_cast<size_t>(id)] = to_.LeafLike(info);
  }
}

std::string Rewriter::FreshName(const std::string& of) {
  const std::string stem = StrCat(of, kRunAgainSuffix);
  std::string name = stem;
  // The old names too: their nodes may come later.
  for (int i = 2; to_.Find(name) || from_.Find(name); ++i) {
    name = StrCat(stem, i);
  }
  return name;
}

std::vector<Value> Rewriter::Run(NodeId id, std::span<const Value> operands) {
  const Node& node = from_.node(id);
  const bool again = first_[static_cast<size_t>(node.results[0])].ok();
  std::vector<std::string> names;
  for (const ValueId result : node.results) {
    const std::string& name = from_.value(result).name;
    names.push_back(again ? FreshName(name) : name);
  }
  to_.SetOrigin(node.phase, node.origin,
                from_.value(node.results.front()).source);
  std::vector<Value> results =
      to_.EmitNamed(node.op, operands, node.attrs, names);
  results.resize(node.results.size());  // after an error there may be more
  for (size_t r = 0; r < results.size(); ++r) {
    const ValueId result = node.results[r];
    const Role role = from_.value(result).role;
    // Declaring outputs makes outputs of them.
    to_.SetRole(results[r], role == Role::kOutput ? Role::kActivation : role);
    if (!again) first_[static_cast<size_t>(result)] = results[r];
  }
  return results;
}

Result<Graph> Rewriter::Finish() {
  for (const GraphOutput& output : from_.outputs()) {
    to_.Output(output.name, first_[static_cast<size_t>(output.value)]);
  }
  return to_.Finish();
}

namespace {

Status CheckOrder(const Graph& graph, std::span<const NodeId> order) {
  const auto count = static_cast<size_t>(graph.num_nodes());
  if (order.size() != count) {
    return InvalidArgumentError("[reorder] the order has ", order.size(),
                                " nodes; graph ", Quoted(graph.name()), " has ",
                                count);
  }
  std::vector<bool> done(count, false);
  for (const NodeId id : order) {
    if (id < 0 || id >= graph.num_nodes()) {
      return InvalidArgumentError("[reorder] there is no node ", id, "; graph ",
                                  Quoted(graph.name()), " has ", count);
    }
    if (done[static_cast<size_t>(id)]) {
      return InvalidArgumentError(
          "[reorder] node ", id, " (", graph.Describe(id),
          ") is in the order twice; each node must be there once");
    }
    for (const ValueId input : graph.node(id).inputs) {
      const ValueInfo& info = graph.value(input);
      if (info.is_leaf() || done[static_cast<size_t>(info.producer)]) continue;
      return InvalidArgumentError(
          "[reorder] node ", id, " (", graph.Describe(id), ") reads ",
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
