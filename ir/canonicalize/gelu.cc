// GELU (Hendrycks & Gimpel 2016) as exporters and models write it:
//
//   x Phi(x) = x / 2 (1 + erf(x / sqrt 2))
//   GPT-2's  = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
//
// with factors in any order, cubes as powers or products.

#include <array>
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

}  // namespace stowage::canonical
