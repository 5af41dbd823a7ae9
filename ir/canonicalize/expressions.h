#ifndef STOWAGE_IR_CANONICALIZE_EXPRESSIONS_H_
#define STOWAGE_IR_CANONICALIZE_EXPRESSIONS_H_

// What a value of a graph is as a formula: a number, a product, a polynomial. Formulas are
// compared as such, so that it does not matter in which order a user has multiplied.
//
//   const Expressions e(graph);
//   e.Factors(y);         // 0.5 * x * (1 + erf(...))
//   e.PolynomialIn(u, x); // {0, k, 0, 0.044715 k}

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_kind.h"

namespace stowage::canonical {

/// A number times values of one shape, over others.
struct Product {
  double number = 1;
  std::vector<ValueId> values, divisors;
};

/// Coefficients of 1, x, x^2 and x^3.
using Polynomial = std::array<double, 4>;

/// What a value of constants holds (ir/canonicalize/narrow.h).
struct Narrow {
  std::vector<int64_t> dims;    // of the value's rank; 1 where all are the same
  std::vector<double> numbers;  // booleans are 0 and 1
};

class Expressions {
 public:
  explicit Expressions(const Graph& graph);

  const Graph& graph() const { return graph_; }
  /// The node that makes a value, if it is of this op.
  const Node* Made(ValueId id, OpKind op) const;
  /// How many nodes and outputs read a value.
  int uses(ValueId id) const { return uses_[static_cast<size_t>(id)]; }

  /// What a value repeats along axes: the operand of its broadcast, or itself.
  ValueId Unrepeated(ValueId id) const;
  /// The number that all elements of a value are.
  std::optional<double> Number(ValueId id) const;
  /// A value as a product, through products and divisions.
  Product Factors(ValueId id) const;
  /// The operand other than a number of a sum with one, and the number.
  struct Shifted {
    ValueId value;
    double number;
  };
  std::optional<Shifted> SumWithNumber(ValueId id) const;
  /// A value as a polynomial in `x`; nothing of what is none, or of more than cubes.
  std::optional<Polynomial> PolynomialIn(ValueId id, ValueId x) const;

  /// That a pattern was almost found at `id`, but for what `why` says.
  void Miss(std::string_view pattern, ValueId id, std::string_view why) const;
  const std::vector<std::string>& misses() const { return misses_; }
  std::map<ValueId, std::optional<Narrow>>& narrows() const { return narrows_; }

 private:
  std::optional<Polynomial> PolynomialIn(ValueId id, ValueId x,
                                         int* steps) const;
  void AddFactors(ValueId id, int depth, Product* product) const;

  const Graph& graph_;
  std::vector<int> uses_;
  mutable std::vector<std::string> misses_;
  mutable std::map<ValueId, std::optional<Narrow>> narrows_;  // by NarrowOf
};

/// Whether two numbers are the same constant, to what f32 has of it.
bool IsNear(double a, double b);

/// What is below the root, if a product has one factor that is 1 / sqrt(...), repeated or
/// not; the factor is taken from it. The root may be a divisor, rsqrt or a reciprocal.
std::optional<ValueId> TakeBelowRoot(const Expressions& e, Product* product);

/// Whether a value is, repeated or not, a number for each feature of the last axis.
bool IsOfFeatures(const Expressions& e, ValueId id, int64_t features);

/// What takes the place of a node's first result.
struct Match {
  std::string_view pattern;  // empty: not counted
  std::vector<ValueId> operands;
  std::function<Value(GraphBuilder&, std::span<const Value>)> emit;
};

/// The op that node `id` completes, if it completes one.
std::optional<Match> MatchGelu(const Expressions& e, NodeId id);
std::optional<Match> MatchSilu(const Expressions& e, NodeId id);
std::optional<Match> MatchGate(const Expressions& e, NodeId id);
std::optional<Match> MatchSoftplus(const Expressions& e, NodeId id);
std::optional<Match> MatchMish(const Expressions& e, NodeId id);
std::optional<Match> MatchHardSwish(const Expressions& e, NodeId id);
std::optional<Match> MatchRmsNorm(const Expressions& e, NodeId id);
std::optional<Match> MatchLayerNorm(const Expressions& e, NodeId id);
/// The same of a sum, which adds beta.
std::optional<Match> MatchLayerNormShift(const Expressions& e, NodeId id);
/// A convolution whose filters see all of an image at once: a linear layer.
std::optional<Match> MatchLinearConv(const Expressions& e, NodeId id);
std::optional<Match> MatchLinearCrossEntropy(const Expressions& e, NodeId id);
std::optional<Match> MatchAttention(const Expressions& e, NodeId id);
/// A permutation of a permutation, and a copy of one whose order is what it was.
std::optional<Match> MatchPermutation(const Expressions& e, NodeId id);

}  // namespace stowage::canonical

#endif  // STOWAGE_IR_CANONICALIZE_EXPRESSIONS_H_
