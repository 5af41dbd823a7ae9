// The head of a language model and its loss: the cross-entropy of logits that a product
// makes, and that nothing else reads, is of the product's operands, so that logits exist for
// some rows at a time.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {
namespace {

// The product whose result a value is, in another shape of the same rows.
const Node* ProductOf(const Expressions& e, ValueId id) {
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

std::optional<Match> MatchLinearCrossEntropy(const Expressions& e, NodeId id) {
  const Graph& graph = e.graph();
  const Node& node = graph.node(id);
  const Shape& logits = graph.value(node.inputs[0]).type.shape;
  if (node.op != OpKind::kCrossEntropy || e.uses(node.results[1]) != 0 ||
      logits.back() < kLargeVocabulary) {
    return {};
  }
  const Node* product = ProductOf(e, node.inputs[0]);
  if (product == nullptr || product->attrs.Int("transpose_a") == 1) return {};
  ValueId w = product->inputs[1];
  if (graph.value(w).type.shape.rank() != 2) return {};
  bool lies_as_wanted = product->attrs.Int("transpose_b") == 1;
  if (const Node* turned = e.Made(w, OpKind::kPermute);
      turned != nullptr && !lies_as_wanted) {
    w = turned->inputs[0];
    lies_as_wanted = true;
  }
  const int64_t rows = logits.num_elements() / logits.back();
  return Match{"linear_cross_entropy",
               {product->inputs[0], w, node.inputs[1]},
               [=](GraphBuilder&, auto given) {
                 const Value x = given[0], labels = given[2];
                 const Value matrix =
                     lies_as_wanted ? given[1] : Permute(given[1], {1, 0});
                 return LinearCrossEntropy(Reshape(x, {rows, x.shape().back()}),
                                           matrix, Reshape(labels, {rows}),
                                           LogitChunk(rows));
               }};
}

}  // namespace stowage::canonical
