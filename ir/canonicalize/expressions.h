#ifndef STOWAGE_IR_CANONICALIZE_EXPRESSIONS_H_
#define STOWAGE_IR_CANONICALIZE_EXPRESSIONS_H_

// Values of a graph as formulas: a number, a product, a polynomial, a table of constants.
// Patterns compare formulas, so that the order of a user's multiplications does not matter.
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

/// number * product(values) / product(divisors); all values have one shape.
struct Product {
  double number = 1;
  std::vector<ValueId> values, divisors;
};

/// Coefficients of 1, x, x^2 and x^3.
using Polynomial = std::array<double, 4>;

/// The elements of a value that depends on constants alone, without repetition: an axis along
/// which all elements are equal has size 1. A causal mask that is computed from positions
/// for each example is a table of queries and keys.
///
///   const auto mask = NarrowOf(e, id);  // where(less_equal(keys, queries), 0, -1e9)
///   mask->dims;                         // {1, 1, 1024, 1024} of (64, 1, 1024, 1024)
struct Narrow {
  std::vector<int64_t> dims;    // of the value's rank
  std::vector<double> numbers;  // booleans are 0 and 1
};

class Expressions {
 public:
  explicit Expressions(const Graph& graph);

  const Graph& graph() const { return graph_; }
  /// The producer of a value if it is of this op, else null.
  const Node* Made(ValueId id, OpKind op) const;
  /// The number of nodes and outputs that read a value.
  int uses(ValueId id) const { return uses_[static_cast<size_t>(id)]; }

  /// The operand of the broadcast that made a value, or the value itself.
  ValueId Unrepeated(ValueId id) const;
  /// The number to which all elements of a value are equal, if there is one.
  std::optional<double> Number(ValueId id) const;
  /// A value as a product, looking through multiplications and divisions.
  Product Factors(ValueId id) const;
  /// value + number.
  struct Shifted {
    ValueId value;
    double number;
  };
  std::optional<Shifted> SumWithNumber(ValueId id) const;
  /// A value as a polynomial in `x` of degree at most 3, if it is one.
  std::optional<Polynomial> PolynomialIn(ValueId id, ValueId x) const;

  /// Records that a pattern almost matched at `id`; `why` names the obstacle.
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

/// Whether two numbers are the same constant to the precision of f32.
bool IsNear(double a, double b);

/// The table of a value. Null if it depends on a leaf or on an op that masks are not made
/// of, or has more than 2^24 elements. Linear in the nodes and elements; cached in `e`.
const Narrow* NarrowOf(const Expressions& e, ValueId id);

/// Removes the one factor 1 / sqrt(v), broadcast or not, from `product` and returns v;
/// nothing if there is no such factor. The root may be a divisor, an rsqrt or a reciprocal.
std::optional<ValueId> TakeBelowRoot(const Expressions& e, Product* product);

/// Whether a value, broadcast or not, has one number for each feature of the last axis.
bool IsOfFeatures(const Expressions& e, ValueId id, int64_t features);

/// A part of an axis that no reshape has cut.
struct Part {
  int64_t size = 1;
  bool repeated = false;  // by a broadcast; the source has no such part
};

/// How a value arranges the elements of another that it was made of by reshapes,
/// permutations, broadcasts and multiplications by constants alone. Exporters express one
/// permutation of attention heads by many such nodes; a pattern only needs to know which
/// axis of the source each axis is.
///
///   const Layout k = LayoutOf(e, transposed);  // permute(reshape(copy(permute(x))))
///   k.source;                                  // x
///   k.axes;                                    // {{0}, {2}, {3}, {1}}: x's first axis, ...
struct Layout {
  ValueId source = 0;
  double factor = 1;  // value = factor * source
  std::vector<Part> parts = {};
  /// Indices into `parts`, by axis of the value and for the whole source; the first varies
  /// slowest. Axes of one element have no part.
  std::vector<std::vector<int>> axes = {};
  std::vector<int> of_source = {};
};

/// The layout of a value; it is its own source if another op made it.
Layout LayoutOf(const Expressions& e, ValueId id);

/// The number of elements of one axis, without repeated parts.
int64_t SizeOf(const Layout& layout, const std::vector<int>& axis);
/// Whether `axes` contain every part of the source once and no repeated part.
bool IsWhole(const Layout& layout, const std::vector<std::vector<int>>& axes);
/// The source, permuted and reshaped to these axes. Precondition: IsWhole.
Value Arranged(const Layout& layout, const std::vector<std::vector<int>>& axes,
               Value source);

/// The replacement of a node's first result.
struct Match {
  std::string_view pattern;  // name in Canonicalized::found; empty: not counted
  std::vector<ValueId> operands;
  std::function<Value(GraphBuilder&, std::span<const Value>)> emit;
};

/// The canonical op that node `id` completes, if it completes one.
std::optional<Match> MatchGelu(const Expressions& e, NodeId id);
std::optional<Match> MatchSilu(const Expressions& e, NodeId id);
std::optional<Match> MatchGate(const Expressions& e, NodeId id);
std::optional<Match> MatchSoftplus(const Expressions& e, NodeId id);
std::optional<Match> MatchMish(const Expressions& e, NodeId id);
std::optional<Match> MatchHardSwish(const Expressions& e, NodeId id);
std::optional<Match> MatchRmsNorm(const Expressions& e, NodeId id);
std::optional<Match> MatchLayerNorm(const Expressions& e, NodeId id);
/// For a sum that adds beta to a layer norm.
std::optional<Match> MatchLayerNormShift(const Expressions& e, NodeId id);
/// A convolution whose filters cover the whole image: a linear layer.
std::optional<Match> MatchLinearConv(const Expressions& e, NodeId id);
std::optional<Match> MatchLinearCrossEntropy(const Expressions& e, NodeId id);
std::optional<Match> MatchAttention(const Expressions& e, NodeId id);
/// A permutation of a permutation, such as between attention, whose heads come after the
/// positions, and code that has them before; a copy of an attention's result.
std::optional<Match> MatchPermutation(const Expressions& e, NodeId id);

}  // namespace stowage::canonical

#endif  // STOWAGE_IR_CANONICALIZE_EXPRESSIONS_H_
