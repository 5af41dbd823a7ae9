// Convolutions whose filters see all of an image at once, as those of squeeze-and-excite
// blocks and heads behind a pooling do: linear layers of its elements.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {

std::optional<Match> MatchLinearConv(const Expressions& e, NodeId id) {
  const Graph& graph = e.graph();
  const Node& node = graph.node(id);
  const Shape& x = graph.value(node.inputs[0]).type.shape;
  const Shape& w = graph.value(node.inputs[1]).type.shape;
  const Shape& y = graph.value(node.results[0]).type.shape;
  const bool is_padded = std::ranges::any_of(node.attrs.Ints("padding"),
                                             [](int64_t n) { return n != 0; });
  if (node.attrs.Int("groups") != 1 || is_padded) return {};
  for (int axis = 2; axis < x.rank(); ++axis) {
    if (x[axis] != w[axis] || y[axis] != 1) return {};
  }
  return Match{"linear",
               {node.inputs[0], node.inputs[1]},
               [images = x[0], features = x.num_elements() / x[0],
                filters = w[0], shape = y](GraphBuilder&, auto operands) {
                 return Reshape(
                     MatMul(Reshape(operands[0], {images, features}),
                            Reshape(operands[1], {filters, features}),
                            /*transpose_a=*/false,
                            /*transpose_b=*/true),
                     shape);
               }};
}

}  // namespace stowage::canonical
