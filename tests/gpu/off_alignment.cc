#include "tests/gpu/off_alignment.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "base/index.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/shape.h"

namespace stowage::testing {
namespace {

// Per value: whether a node writes its bytes.
std::vector<bool> WrittenIn(const Graph& graph) {
  const Layouts layouts = ComputeLayouts(graph);
  std::vector<bool> written(Index(graph.num_values()), false);
  for (const Node& node : graph.nodes()) {
    for (int i = 0; i < GetOpDef(node.op).updates; ++i) {
      const ValueId updated = node.inputs[static_cast<size_t>(i)];
      written[Index(layouts[Index(updated)].root)] = true;
    }
  }
  return written;
}

}  // namespace

Result<OffAlignment> PutOffAlignment(const Graph& graph,
                                     const Tensors& leaves) {
  // Elements before a leaf's first: with any size of an element, off 16 bytes.
  constexpr int64_t kShifts[] = {1, 2, 3, 5, 6, 7};
  const std::vector<bool> written = WrittenIn(graph);
  OffAlignment off{.graph = graph, .leaves = leaves};
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    ValueInfo leaf = graph.value(id);
    const auto elements = leaves.find(leaf.name);
    if (!leaf.is_leaf() || leaf.on_host || written[Index(id)] ||
        elements == leaves.end()) {
      continue;
    }
    const int64_t shift =
        kShifts[static_cast<size_t>(off.moved++) % std::size(kShifts)];
    const Shape shape = leaf.type.shape;
    const int64_t end = shift + shape.num_elements();
    leaf.type.shape = Shape{end};
    copy.Map(id, Reshape(Slice(g.LeafLike(leaf), 0, shift, end), shape));
    std::vector<double>& moved = off.leaves.at(leaf.name);
    moved.insert(moved.begin(), static_cast<size_t>(shift), 0.0);
  }
  copy.DeclareLeaves();
  for (NodeId n = 0; n < graph.num_nodes(); ++n) copy.CopyNode(n);
  copy.DeclareOutputs();
  STOWAGE_ASSIGN_OR_RETURN(off.graph, g.Finish());
  return off;
}

}  // namespace stowage::testing
