// SiLU (Elfwing et al. 2017), x sigmoid(x) or x / (1 + e^-x), and gates by it or by GELU
// (Shazeer 2020), activation(gate) * up.

#include <cstddef>
#include <optional>

#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {
namespace {

Match Silu(ValueId x) {
  return {"silu", {x}, [](GraphBuilder&, auto operands) {
            return stowage::Silu(operands[0]);
          }};
}

}  // namespace

std::optional<Match> MatchSilu(const Expressions& e, NodeId id) {
  const Node& node = e.graph().node(id);
  if (node.op == OpKind::kMul) {
    for (const size_t i : {0, 1}) {
      const Node* sigmoid = e.Made(node.inputs[1 - i], OpKind::kSigmoid);
      if (sigmoid != nullptr && sigmoid->inputs[0] == node.inputs[i]) {
        return Silu(node.inputs[i]);
      }
    }
    return {};
  }
  if (node.op != OpKind::kDiv) return {};
  const auto below = e.SumWithNumber(node.inputs[1]);
  if (!below || below->number != 1) return {};
  const Node* power = e.Made(below->value, OpKind::kExp);
  if (power == nullptr) return {};
  const auto inside = e.PolynomialIn(power->inputs[0], node.inputs[0]);
  const Node* negated = e.Made(power->inputs[0], OpKind::kNeg);
  if ((inside && *inside == Polynomial{0, -1, 0, 0}) ||
      (negated != nullptr && negated->inputs[0] == node.inputs[0])) {
    return Silu(node.inputs[0]);
  }
  return {};
}

std::optional<Match> MatchGate(const Expressions& e, NodeId id) {
  const Node& node = e.graph().node(id);
  if (node.op != OpKind::kMul) return {};
  struct Kind {
    OpKind op;
    GluActivation activation;
  };
  static constexpr Kind kKinds[] = {
      {OpKind::kSilu, GluActivation::kSilu},
      {OpKind::kGeluTanh, GluActivation::kGeluTanh},
      {OpKind::kGeluErf, GluActivation::kGeluErf}};
  for (const size_t i : {0, 1}) {
    const ValueId gated = node.inputs[i], up = node.inputs[1 - i];
    // What is read elsewhere is kept anyway, and a product with itself is no gate.
    if (e.uses(gated) != 1 || e.Number(up) || e.Unrepeated(up) != up) continue;
    for (const Kind& kind : kKinds) {
      const Node* activation = e.Made(gated, kind.op);
      if (activation == nullptr) continue;
      return Match{"glu",
                   {activation->inputs[0], up},
                   [kind](GraphBuilder&, auto operands) {
                     return Glu(operands[0], operands[1], kind.activation);
                   }};
    }
  }
  return {};
}

}  // namespace stowage::canonical
