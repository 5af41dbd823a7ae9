// Softplus (Dugas et al. 2001), log(1 + e^x); mish (Misra 2019), x tanh(softplus(x)); and
// hard swish (Howard et al. 2019), x clamp(x + 3, 0, 6) / 6.

#include <cmath>
#include <cstddef>
#include <optional>

#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {

std::optional<Match> MatchSoftplus(const Expressions& e, NodeId id) {
  const Node& node = e.graph().node(id);
  ValueId power = node.inputs[0];
  if (node.op == OpKind::kLog) {
    const auto sum = e.SumWithNumber(power);
    if (!sum || sum->number != 1) return {};
    power = sum->value;
  }
  const Node* made = e.Made(power, OpKind::kExp);
  if (made == nullptr) return {};
  return Match{"softplus", {made->inputs[0]}, [](GraphBuilder&, auto operands) {
                 return Softplus(operands[0]);
               }};
}

std::optional<Match> MatchMish(const Expressions& e, NodeId id) {
  const Node& node = e.graph().node(id);
  if (node.op != OpKind::kMul) return {};
  for (const size_t i : {0, 1}) {
    const Node* bent = e.Made(node.inputs[1 - i], OpKind::kTanh);
    const Node* softplus =
        bent == nullptr ? nullptr : e.Made(bent->inputs[0], OpKind::kSoftplus);
    if (softplus == nullptr || softplus->inputs[0] != node.inputs[i]) continue;
    return Match{"mish", {node.inputs[i]}, [](GraphBuilder&, auto operands) {
                   return Mish(operands[0]);
                 }};
  }
  return {};
}

std::optional<Match> MatchHardSwish(const Expressions& e, NodeId id) {
  const Product product = e.Factors(e.graph().node(id).results[0]);
  if (product.values.size() != 2 || !product.divisors.empty()) return {};
  for (const size_t i : {0, 1}) {
    const ValueId x = product.values[i];
    const Node* clamped = e.Made(product.values[1 - i], OpKind::kClamp);
    if (clamped == nullptr || clamped->attrs.Float("min") != 0) continue;
    const auto inside = e.PolynomialIn(clamped->inputs[0], x);
    const double most = clamped->attrs.Float("max");
    // number * clamp(a x + b, 0, most), all over most: clamp(x / 6 + 1 / 2, 0, 1).
    if (!inside || !IsNear(product.number * most, 1) ||
        !IsNear((*inside)[1] / most, 1.0 / 6) ||
        !IsNear((*inside)[0] / most, 0.5) || (*inside)[2] != 0 ||
        (*inside)[3] != 0) {
      continue;
    }
    return Match{"hard_swish", {x}, [](GraphBuilder&, auto operands) {
                   return HardSwish(operands[0]);
                 }};
  }
  return {};
}

}  // namespace stowage::canonical
