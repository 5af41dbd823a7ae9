#include "planner/fit/tiles/tiles.h"

#include <algorithm>

#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/op_kind.h"

namespace stowage::fit {
namespace {

bool MakesLogits(const Node& node) {
  return node.op == OpKind::kLinearCrossEntropy ||
         node.op == OpKind::kLinearCrossEntropyGrad;
}

int64_t CeilOf(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows of a tile in so many parts; those that it has where it is small.
int64_t RowsInParts(int64_t rows, int64_t parts) {
  return std::max(CeilOf(rows, parts), std::min(rows, kMinTileRows));
}

}  // namespace

Result<Tiled> TileLogits(const Graph& graph, int64_t parts) {
  Tiled tiled;
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    Attrs attrs = node.attrs;
    if (MakesLogits(node)) {
      const TensorType& labels = graph.value(node.inputs[2]).type;
      const int64_t rows = labels.shape.num_elements();
      const int64_t before = std::min(attrs.Int("chunk"), rows);
      const int64_t after = RowsInParts(before, parts);
      if (after < before) {
        attrs.Set("chunk", after);
        tiled.rows = std::max(tiled.rows, after);
        Bytes weights = graph.value(node.inputs[1]).type.bytes();
        // The gradient of the weights is read and written.
        if (node.results.size() > 2) {
          weights += 2 * graph.value(node.results[2]).type.bytes();
        }
        tiled.extra_traffic +=
            weights * (CeilOf(rows, after) - CeilOf(rows, before));
      }
    }
    copy.CopyNode(n, attrs);
  }
  if (tiled.rows == 0) {
    tiled.graph = graph;
    return tiled;
  }
  copy.DeclareOutputs();
  STOWAGE_ASSIGN_OR_RETURN(tiled.graph, g.Finish());
  return tiled;
}

}  // namespace stowage::fit
