// RMS norm (Zhang & Sennrich 2019) by hand, as models of Llama's kind have it:
//
//   x / sqrt(mean(x^2) + eps) gamma
//
// with the root below or as rsqrt, and gamma of one number for each feature, or none.

#include <cstddef>
#include <optional>
#include <vector>

#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {
namespace {

// eps, if a value is mean(x^2) + eps over the last axis, which stays.
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

}  // namespace stowage::canonical
