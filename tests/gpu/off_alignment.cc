#include "tests/gpu/off_alignment.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "ir/uses.h"

namespace stowage::testing {
Result<OffAlignment> PutOffAlignment(const Graph& graph,
                                     const Tensors& leaves) {
  // Elements before a leaf's first: with any size of an element, off 16 bytes.
  constexpr int64_t kShifts[] = {1, 2, 3, 5, 6, 7};
  const Uses uses(graph, ComputeLayouts(graph));
  OffAlignment off{.graph = graph, .leaves = leaves};
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    ValueInfo leaf = graph.value(id);
    const auto elements = leaves.find(leaf.name);
    if (!leaf.is_leaf() || leaf.on_host || uses.overwriter(id) != kNoNode ||
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
