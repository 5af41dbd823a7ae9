// Permutations that cancel, such as those between attention, whose heads stand behind the
// positions, and code that has them before.

#include <cstddef>
#include <optional>
#include <vector>

#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {

std::optional<Match> MatchPermutation(const Expressions& e, NodeId id) {
  const Node& node = e.graph().node(id);
  const ValueId x = node.inputs[0];
  if (node.op == OpKind::kCopy) {
    // Made so that a reshape may look at it, which it may without.
    if (e.Made(x, OpKind::kAttention) == nullptr) return {};
    return Match{
        "", {x}, [](GraphBuilder&, auto operands) { return operands[0]; }};
  }
  if (node.op != OpKind::kPermute) return {};
  const Node* inner = e.Made(x, OpKind::kPermute);
  if (inner == nullptr) return {};
  const auto& first = inner->attrs.Ints("order");
  Axes order;
  bool is_same = true;
  for (const int64_t axis : node.attrs.Ints("order")) {
    order.push_back(first[static_cast<size_t>(axis)]);
    is_same = is_same && order.back() == std::ssize(order) - 1;
  }
  return Match{
      "", {inner->inputs[0]}, [order, is_same](GraphBuilder&, auto operands) {
        return is_same ? operands[0] : Permute(operands[0], order);
      }};
}

}  // namespace stowage::canonical
