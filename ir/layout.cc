#include "ir/layout.h"

#include <algorithm>

#include "base/check.h"
#include "ir/bodies.h"

namespace stowage {

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

}  // namespace stowage
