#include "ir/layout.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/op_def.h"

namespace stowage {
namespace {

// Whether `node` cannot use input `i` with this layout.
bool NeedsCopy(const OpDef& def, const OpArgs& args, const Node& node, int i,
               const ViewLayout& layout) {
  if (def.is_view()) {
    if (i != 0) return false;
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (!def.view(args, static_cast<int>(r), layout)) return true;
    }
    return false;
  }
  if (IsContiguous(args.shape(i), layout.strides)) return false;
  return def.accepts == nullptr || !def.accepts(args, i, layout.strides);
}

// Calls visit(node index, input index, value) for every operand that needs a copy, given
// that the earlier copies have been made. ComputeLayouts, which requires a legal graph,
// cannot be used here.
template <typename Visit>
void FindIllegal(const Graph& graph, Visit visit) {
  std::vector<ViewLayout> layouts(static_cast<size_t>(graph.num_values()));
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    layouts[static_cast<size_t>(id)] = {
        ContiguousStrides(graph.value(id).type.shape), 0};
  }
  OpArgsStorage storage;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    const OpDef& def = GetOpDef(node.op);
    const auto is_contiguous = [&](ValueId input) {
      return IsContiguous(graph.value(input).type.shape,
                          layouts[static_cast<size_t>(input)].strides);
    };
    if (!def.is_view() && std::ranges::all_of(node.inputs, is_contiguous)) {
      continue;
    }
    const OpArgs args = MakeOpArgs(graph, node, &storage);
    for (int i = 0; i < args.count(); ++i) {
      const ValueId input = node.inputs[static_cast<size_t>(i)];
      ViewLayout layout = layouts[static_cast<size_t>(input)];
      if (NeedsCopy(def, args, node, i, layout)) {
        visit(n, i, input);
        layout = {ContiguousStrides(args.shape(i)), 0};
      }
      if (!def.is_view()) continue;
      for (size_t r = 0; r < node.results.size(); ++r) {
        layouts[static_cast<size_t>(node.results[r])] =
            *def.view(args, static_cast<int>(r), layout);
      }
    }
  }
}

}  // namespace

OpArgs MakeOpArgs(const Graph& graph, const Node& node,
                  OpArgsStorage* storage) {
  storage->types.clear();
  storage->names.clear();
  for (const ValueId input : node.inputs) {
    storage->types.push_back(graph.value(input).type);
    storage->names.push_back(graph.value(input).name);
  }
  return OpArgs{node.op, storage->types, storage->names, node.attrs};
}

Layouts ComputeLayouts(const Graph& graph) {
  Layouts layouts(static_cast<size_t>(graph.num_values()));
  const auto at = [&](ValueId id) -> Layout& {
    return layouts[static_cast<size_t>(id)];
  };
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    at(id) = {id, 0, ContiguousStrides(graph.value(id).type.shape)};
  }
  OpArgsStorage storage;
  for (const Node& node : graph.nodes()) {
    const OpDef& def = GetOpDef(node.op);
    if (def.is_view()) {
      const OpArgs args = MakeOpArgs(graph, node, &storage);
      const Layout& in = at(node.inputs[0]);
      const Bytes element = SizeOf(args.type(0).dtype);
      for (size_t r = 0; r < node.results.size(); ++r) {
        const auto view = def.view(args, static_cast<int>(r),
                                   {in.strides, in.byte_offset / element});
        STOWAGE_CHECK(view.has_value());
        at(node.results[r]) = {in.root, view->offset * element, view->strides};
      }
    }
    for (int r = 0; r < def.updates; ++r) {
      at(node.results[static_cast<size_t>(r)]).root =
          at(node.inputs[static_cast<size_t>(r)]).root;
    }
  }
  return layouts;
}

double NodeFlops(const Graph& graph, const Node& node) {
  double body_flops = 0;
  for (const auto& body : BodiesOf(node)) {
    body_flops = std::max(body_flops, GraphFlops(*body));
  }
  if (body_flops > 0)
    return static_cast<double>(IterationsOf(node)) * body_flops;
  const OpDef& def = GetOpDef(node.op);
  if (def.flops == nullptr) return 0;
  OpArgsStorage storage;
  const OpArgs args = MakeOpArgs(graph, node, &storage);
  std::vector<TensorType> results;
  for (const ValueId id : node.results) results.push_back(graph.value(id).type);
  return def.flops(args, results);
}

double GraphFlops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes()) flops += NodeFlops(graph, node);
  return flops;
}

bool IsLegal(const Graph& graph) {
  bool legal = true;
  FindIllegal(graph, [&](NodeId, int, ValueId) { legal = false; });
  return legal;
}

Graph Legalize(Graph graph) {
  struct Operand {
    NodeId node;
    int input;
    ValueId value;
  };
  std::vector<Operand> operands;  // in node order
  FindIllegal(graph, [&](NodeId node, int input, ValueId value) {
    operands.push_back({node, input, value});
  });
  if (operands.empty()) return graph;
  Graph::Parts& own = graph.Own();

  std::vector<Node> nodes;
  std::unordered_map<ValueId, ValueId> copies;  // value -> its contiguous copy
  // Old ids in their new order: values are in the order of their producers, so a copy's
  // result goes before the results of its first reader.
  std::vector<ValueId> order;
  const ValueId old_count = graph.num_values();
  ValueId moved = 0;
  size_t next = 0;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    Node& node = own.nodes[static_cast<size_t>(n)];
    while (moved < node.results.front()) order.push_back(moved++);
    for (; next < operands.size() && operands[next].node == n; ++next) {
      const ValueId source = operands[next].value;
      const auto [entry, is_new] =
          copies.try_emplace(source, graph.num_values());
      if (is_new) {
        ValueInfo info{.name = graph.value(source).name + ".contiguous",
                       .type = graph.value(source).type,
                       .role = Role::kActivation,
                       .source = graph.value(node.results.front()).source};
        for (int i = 2;
             !own.by_name.try_emplace(info.name, entry->second).second; ++i) {
          info.name = StrCat(graph.value(source).name, ".contiguous", i);
        }
        order.push_back(entry->second);
        own.values.push_back(std::move(info));
        nodes.push_back(Node{.op = OpKind::kCopy,
                             .inputs = {source},
                             .results = {entry->second},
                             .attrs = {},
                             .phase = node.phase,
                             .origin = node.origin});
      }
      node.inputs[static_cast<size_t>(operands[next].input)] = entry->second;
    }
    nodes.push_back(std::move(node));
  }
  while (moved < old_count) order.push_back(moved++);

  std::vector<ValueId> new_ids(order.size());
  std::vector<ValueInfo> values;
  for (const ValueId old : order) {
    new_ids[static_cast<size_t>(old)] = static_cast<ValueId>(values.size());
    values.push_back(std::move(own.values[static_cast<size_t>(old)]));
  }
  const auto renumber = [&](ValueId& id) {
    id = new_ids[static_cast<size_t>(id)];
  };
  for (Node& node : nodes) {
    for (ValueId& id : node.inputs) renumber(id);
    for (ValueId& id : node.results) renumber(id);
  }
  for (GraphOutput& output : own.outputs) renumber(output.value);
  for (auto& [name, id] : own.by_name) renumber(id);
  own.values = std::move(values);
  own.nodes = std::move(nodes);
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    for (const ValueId result : graph.node(n).results) {
      own.values[static_cast<size_t>(result)].producer = n;
    }
  }
  return graph;
}

}  // namespace stowage
