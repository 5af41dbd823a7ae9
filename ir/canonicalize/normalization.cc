// RMS norm (Zhang & Sennrich 2019) and layer norm (Ba et al. 2016) over the last axis, as
// models and exporters write them:
//
//   x / sqrt(mean(x^2) + eps) gamma
//   (x - mean(x)) / sqrt(variance(x) + eps) gamma + beta
//
// with a division or rsqrt, and gamma and beta of one number for each feature, or none. The
// variance is the mean of (x - mean(x))^2 or, in Flax, mean(x^2) - mean(x)^2. TensorFlow's
// form is x r + (beta - mean(x) r), with r = gamma / sqrt(...).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {
namespace {

// eps, if a value is mean(x^2) + eps over the last axis, which is kept as 1.
std::optional<double> EpsOfMean(const Expressions& e, ValueId id, ValueId x) {
  const auto sum = e.SumWithNumber(id);
  if (!sum || sum->number <= 0) return {};
  const Node* mean = e.Made(sum->value, OpKind::kReduceMean);
  if (mean == nullptr || mean->attrs.Int("keep") != 1) return {};
  const auto& axes = mean->attrs.Ints("axes");
  const int rank = e.graph().value(x).type.shape.rank();
  if (axes.size() != 1 || axes[0] != rank - 1) return {};
  const auto squares = e.PolynomialIn(mean->inputs[0], x);
  if (!squares || *squares != Polynomial{0, 0, 1, 0}) return {};
  return sum->number;
}

// x, if a value is the mean of x over the last axis, which is kept as 1.
std::optional<ValueId> MeanOf(const Expressions& e, ValueId id) {
  const Product product = e.Factors(e.Unrepeated(id));
  if (product.values.size() != 1 || !product.divisors.empty()) return {};
  const Node* mean = e.Made(product.values[0], OpKind::kReduceMean);
  const Node* sum = e.Made(product.values[0], OpKind::kReduceSum);
  const Node* node = mean != nullptr ? mean : sum;
  if (node == nullptr || node->attrs.Int("keep") != 1) return {};
  const Shape& shape = e.graph().value(node->inputs[0]).type.shape;
  const auto& axes = node->attrs.Ints("axes");
  if (axes.size() != 1 || axes[0] != shape.rank() - 1) return {};
  const double number =
      mean != nullptr ? 1 : 1 / static_cast<double>(shape.back());
  if (!IsNear(product.number, number)) return {};
  return node->inputs[0];
}

// x, if a value is x - mean(x).
std::optional<ValueId> CenteredOf(const Expressions& e, ValueId id) {
  const Node* node = e.Made(id, OpKind::kSub);
  if (node == nullptr || MeanOf(e, node->inputs[1]) != node->inputs[0]) {
    return {};
  }
  return node->inputs[0];
}

// The two values whose product a value is, if it is a square or a product.
std::optional<std::pair<ValueId, ValueId>> FactorsOf(const Expressions& e,
                                                     ValueId id) {
  if (const Node* node = e.Made(id, OpKind::kSquare)) {
    return std::pair(node->inputs[0], node->inputs[0]);
  }
  if (const Node* node = e.Made(id, OpKind::kMul)) {
    return std::pair(node->inputs[0], node->inputs[1]);
  }
  const Node* node = e.Made(id, OpKind::kPow);
  if (node == nullptr || e.Number(node->inputs[1]) != 2) return {};
  return std::pair(node->inputs[0], node->inputs[0]);
}

bool IsVariance(const Expressions& e, ValueId id, ValueId x) {
  if (const Node* node = e.Made(id, OpKind::kRelu)) id = node->inputs[0];
  if (const Node* node = e.Made(id, OpKind::kMaximum)) {
    const bool first = e.Number(node->inputs[0]) == 0;
    if (!first && e.Number(node->inputs[1]) != 0) return false;
    id = node->inputs[first ? 1 : 0];
  }
  if (const auto squares = MeanOf(e, id)) {
    const auto factors = FactorsOf(e, *squares);
    return factors && CenteredOf(e, factors->first) == x &&
           CenteredOf(e, factors->second) == x;
  }
  const Node* node = e.Made(id, OpKind::kSub);
  if (node == nullptr) return false;
  const auto squares = MeanOf(e, node->inputs[0]);
  const auto of_mean = FactorsOf(e, node->inputs[1]);
  if (!squares || !of_mean || MeanOf(e, of_mean->first) != x ||
      MeanOf(e, of_mean->second) != x) {
    return false;
  }
  const auto of_x = FactorsOf(e, *squares);
  return of_x && of_x->first == x && of_x->second == x;
}

// eps, if a value is variance(x) + eps.
std::optional<double> EpsOf(const Expressions& e, ValueId id, ValueId x) {
  const auto sum = e.SumWithNumber(id);
  if (!sum || sum->number <= 0 || !IsVariance(e, sum->value, x)) return {};
  return sum->number;
}

// Gamma and beta are of one number for each feature.
Match Norm(const Expressions& e, ValueId x, std::optional<ValueId> gamma,
           std::optional<ValueId> beta, double eps) {
  std::vector<ValueId> operands = {x};
  if (gamma) operands.push_back(e.Unrepeated(*gamma));
  if (beta) operands.push_back(e.Unrepeated(*beta));
  return {"layer_norm", std::move(operands),
          [=, scales = gamma.has_value(), shifts = beta.has_value()](
              GraphBuilder& g, auto given) {
            const int64_t features = given[0].shape().back();
            const auto param = [&](bool is_there, size_t i, double number) {
              if (!is_there) {
                return Fill(g, number, given[0].dtype(), {features});
              }
              return given[i].rank() == 1 ? given[i]
                                          : Reshape(given[i], {features});
            };
            return LayerNorm(given[0], param(scales, 1, 1),
                             param(shifts, scales ? 2 : 1, 0), eps);
          }};
}

}  // namespace

std::optional<Match> MatchRmsNorm(const Expressions& e, NodeId id) {
  const Graph& graph = e.graph();
  const Node& node = graph.node(id);
  Product product = e.Factors(node.results[0]);
  const std::optional<ValueId> below = TakeBelowRoot(e, &product);
  if (!below || product.number != 1 || product.values.empty() ||
      product.values.size() > 2) {
    return {};
  }
  const TensorType& type = graph.value(node.results[0]).type;
  if (type.shape.rank() < 1) return {};
  const int64_t features = type.shape.back();
  for (size_t i = 0; i < product.values.size(); ++i) {
    const ValueId x = product.values[i];
    if (graph.value(x).type != type) continue;
    const auto eps = EpsOfMean(e, *below, x);
    if (!eps) continue;
    if (product.values.size() == 1) {
      return Match{
          "rms_norm",
          {x},
          [eps, features, dtype = type.dtype](GraphBuilder& g, auto operands) {
            return RmsNorm(operands[0], Fill(g, 1, dtype, {features}), *eps);
          }};
    }
    const ValueId gamma = e.Unrepeated(product.values[1 - i]);
    if (!IsOfFeatures(e, gamma, features)) return {};
    return Match{
        "rms_norm", {x, gamma}, [eps, features](GraphBuilder&, auto operands) {
          const Value flat = operands[1].rank() == 1
                                 ? operands[1]
                                 : Reshape(operands[1], {features});
          return RmsNorm(operands[0], flat, *eps);
        }};
  }
  return {};
}

std::optional<Match> MatchLayerNorm(const Expressions& e, NodeId id) {
  const Graph& graph = e.graph();
  const ValueId result = graph.node(id).results[0];
  Product product = e.Factors(result);
  const std::optional<ValueId> below = TakeBelowRoot(e, &product);
  if (!below || product.number != 1 || product.values.empty() ||
      product.values.size() > 2) {
    return {};
  }
  for (size_t i = 0; i < product.values.size(); ++i) {
    const auto x = CenteredOf(e, product.values[i]);
    if (!x || graph.value(*x).type != graph.value(result).type) continue;
    const auto eps = EpsOf(e, *below, *x);
    if (!eps) continue;
    if (product.values.size() == 1) return Norm(e, *x, {}, {}, *eps);
    const ValueId gamma = product.values[1 - i];
    const int64_t features = graph.value(*x).type.shape.back();
    if (!IsOfFeatures(e, gamma, features)) return {};
    return Norm(e, *x, gamma, {}, *eps);
  }
  return {};
}

std::optional<Match> MatchLayerNormShift(const Expressions& e, NodeId id) {
  const Graph& graph = e.graph();
  const Node& node = graph.node(id);
  const TensorType& type = graph.value(node.results[0]).type;
  if (type.shape.rank() < 1) return {};
  const int64_t features = type.shape.back();
  for (const size_t i : {0, 1}) {
    const ValueId scaled = node.inputs[i], shift = node.inputs[1 - i];
    if (const Node* norm = e.Made(scaled, OpKind::kLayerNorm)) {
      if (norm->results[0] == scaled && e.uses(scaled) == 1 &&
          e.Number(norm->inputs[2]) == 0 && IsOfFeatures(e, shift, features)) {
        return Norm(e, norm->inputs[0], norm->inputs[1], shift,
                    norm->attrs.Float("eps"));
      }
      continue;
    }
    const Node* product = e.Made(scaled, OpKind::kMul);
    const Node* rest = e.Made(e.Unrepeated(shift), OpKind::kSub);
    const Node* taken =
        rest == nullptr ? nullptr : e.Made(rest->inputs[1], OpKind::kMul);
    if (product == nullptr || taken == nullptr ||
        !IsOfFeatures(e, rest->inputs[0], features)) {
      continue;
    }
    for (size_t place = 0; place < 4; ++place) {
      const size_t a = place / 2, b = place % 2;  // of x, and of its mean
      const ValueId x = product->inputs[a], by = product->inputs[1 - a];
      if (graph.value(x).type != type ||
          e.Unrepeated(by) != e.Unrepeated(taken->inputs[1 - b]) ||
          MeanOf(e, taken->inputs[b]) != x) {
        continue;
      }
      Product factors = e.Factors(e.Unrepeated(by));
      const std::optional<ValueId> below = TakeBelowRoot(e, &factors);
      if (!below || factors.number != 1 || factors.values.size() > 1) continue;
      const auto eps = EpsOf(e, *below, x);
      if (!eps) continue;
      if (factors.values.empty()) return Norm(e, x, {}, rest->inputs[0], *eps);
      if (!IsOfFeatures(e, factors.values[0], features)) continue;
      return Norm(e, x, factors.values[0], rest->inputs[0], *eps);
    }
  }
  return {};
}

}  // namespace stowage::canonical
