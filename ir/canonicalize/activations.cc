// Activations as exporters and models write them, with factors in any order and cubes as
// powers or products, and gated linear units:
//
//   GELU (Hendrycks & Gimpel 2016)     x / 2 (1 + erf(x / sqrt 2)); GPT-2's form is
//                                      x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
//   SiLU (Elfwing et al. 2017)         x sigmoid(x) or x / (1 + e^-x)
//   softplus (Dugas et al. 2001)       log(1 + e^x)
//   mish (Misra 2019)                  x tanh(softplus(x))
//   hard swish (Howard et al. 2019)    x clamp(x + 3, 0, 6) / 6
//   gates (Shazeer 2020)               activation(gate) up, of SiLU or GELU

#include <cmath>
#include <cstddef>
#include <numbers>
#include <optional>

#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {
namespace {

bool IsErf(const Polynomial& p) {
  return p[0] == 0 && IsNear(p[1], std::numbers::sqrt2 / 2) && p[2] == 0 &&
         p[3] == 0;
}

bool IsTanh(const Polynomial& p) {
  const double k = std::sqrt(2 / std::numbers::pi);
  return p[0] == 0 && IsNear(p[1], k) && p[2] == 0 &&
         IsNear(p[3], 0.044715 * k);
}

Match Silu(ValueId x) {
  return {"silu", {x}, [](GraphBuilder&, auto operands) {
            return stowage::Silu(operands[0]);
          }};
}

}  // namespace

std::optional<Match> MatchGelu(const Expressions& e, NodeId id) {
  const Product product = e.Factors(e.graph().node(id).results[0]);
  if (product.values.size() != 2 || !product.divisors.empty() ||
      !IsNear(product.number, 0.5)) {
    return {};
  }
  for (const size_t i : {0, 1}) {
    const ValueId x = product.values[i];
    const auto sum = e.SumWithNumber(product.values[1 - i]);
    if (!sum || sum->number != 1) continue;
    for (const OpKind op : {OpKind::kErf, OpKind::kTanh}) {
      const Node* bent = e.Made(sum->value, op);
      if (bent == nullptr) continue;
      const auto inside = e.PolynomialIn(bent->inputs[0], x);
      if (!inside) continue;
      if (op == OpKind::kErf && IsErf(*inside)) {
        return Match{"gelu", {x}, [](GraphBuilder&, auto operands) {
                       return GeluErf(operands[0]);
                     }};
      }
      if (op == OpKind::kTanh && IsTanh(*inside)) {
        return Match{"gelu_tanh", {x}, [](GraphBuilder&, auto operands) {
                       return GeluTanh(operands[0]);
                     }};
      }
    }
  }
  return {};
}

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
    // A gated value with other readers is kept anyway; x * activation(x) is no gate.
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
