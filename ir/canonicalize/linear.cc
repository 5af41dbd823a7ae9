// Linear layers in other forms. A convolution whose filters cover the whole image, as in
// squeeze-and-excite blocks and in heads after pooling, is a matmul of the image's elements.
// The cross-entropy of logits that only it reads is a linear_cross_entropy of the matmul's
// operands, which computes logits for some rows at a time.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {
namespace {

// The matmul whose result a value is, reshaped with the same rows.
const Node* MatMulOf(const Expressions& e, ValueId id) {
  const Graph& graph = e.graph();
  const int64_t columns = graph.value(id).type.shape.back();
  while (e.uses(id) == 1) {
    if (graph.value(id).type.shape.back() != columns) return nullptr;
    if (const Node* product = e.Made(id, OpKind::kMatMul)) return product;
    if (const Node* node = e.Made(id, OpKind::kReshape)) {
      id = node->inputs[0];
      continue;
    }
    const Node* node = e.Made(id, OpKind::kPermute);
    if (node == nullptr || !std::ranges::is_sorted(node->attrs.Ints("order"))) {
      return nullptr;
    }
    id = node->inputs[0];
  }
  return nullptr;
}

}  // namespace

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

std::optional<Match> MatchLinearCrossEntropy(const Expressions& e, NodeId id) {
  const Graph& graph = e.graph();
  const Node& node = graph.node(id);
  const Shape& logits = graph.value(node.inputs[0]).type.shape;
  if (node.op != OpKind::kCrossEntropy || e.uses(node.results[1]) != 0 ||
      logits.back() < kLargeVocabulary) {
    return {};
  }
  const Node* product = MatMulOf(e, node.inputs[0]);
  if (product == nullptr || product->attrs.Int("transpose_a") == 1) return {};
  ValueId w = product->inputs[1];
  if (graph.value(w).type.shape.rank() != 2) return {};
  bool is_transposed = product->attrs.Int("transpose_b") == 1;
  if (const Node* turned = e.Made(w, OpKind::kPermute);
      turned != nullptr && !is_transposed) {
    w = turned->inputs[0];
    is_transposed = true;
  }
  const int64_t rows = logits.num_elements() / logits.back();
  return Match{"linear_cross_entropy",
               {product->inputs[0], w, node.inputs[1]},
               [=](GraphBuilder&, auto given) {
                 const Value x = given[0], labels = given[2];
                 const Value matrix =
                     is_transposed ? given[1] : Permute(given[1], {1, 0});
                 return LinearCrossEntropy(Reshape(x, {rows, x.shape().back()}),
                                           matrix, Reshape(labels, {rows}),
                                           LogitChunk(rows));
               }};
}

}  // namespace stowage::canonical
