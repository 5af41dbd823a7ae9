#ifndef STOWAGE_IR_CANONICALIZE_EXPRESSIONS_H_
#define STOWAGE_IR_CANONICALIZE_EXPRESSIONS_H_

// Represents values of a graph as formulas, for the patterns of ir/canonicalize/canonicalize.h. A
// formula is a number, a product, a polynomial or a table of constants. Patterns compare formulas
// instead of nodes, so they match whatever the order of multiplications is in the user's code.
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

/// The formula number * product(values) / product(divisors). All values have the same shape.
struct Product {
  double number = 1;
  std::vector<ValueId> values, divisors;
};

/// The coefficients of 1, x, x^2 and x^3.
using Polynomial = std::array<double, 4>;

/// The elements of a value that depends only on constants, stored without repetition. An axis along
/// which all elements are equal has size 1. For example, a causal mask for a batch is the same for
/// all examples, so it is stored as one table of queries and keys.
///
///   const auto mask = NarrowOf(e, id);  // where(less_equal(keys, queries), 0, -1e9)
///   mask->dims;                         // {1, 1, 1024, 1024} of (64, 1, 1024, 1024)
struct Narrow {
  std::vector<int64_t> dims;    // one per axis of the value
  std::vector<double> numbers;  // row-major; booleans are 0 and 1
};

class Expressions {
 public:
  explicit Expressions(const Graph& graph);

  const Graph& graph() const { return graph_; }
  /// Returns the producer of a value if the producer is an `op` node, or null otherwise.
  const Node* Made(ValueId id, OpKind op) const;
  /// Returns the number of operands and outputs of the graph that are this value.
  int uses(ValueId id) const { return uses_[static_cast<size_t>(id)]; }

  /// Returns the value before it was broadcast, or the value itself if it is not the result of a
  /// broadcast.
  ValueId Unrepeated(ValueId id) const;
  /// Returns the number to which all elements of a value are equal. Returns nullopt if the value is
  /// not a fill or a constant of one element, broadcast or reshaped.
  std::optional<double> Number(ValueId id) const;
  /// Returns a value as a product: the factors of the multiplications and divisions that compute
  /// it, up to a depth of 8. A value that is not such a result is its own only factor.
  Product Factors(ValueId id) const;
  /// The formula value + number.
  struct Shifted {
    ValueId value;
    double number;
  };
  /// Returns the operands of the addition of another value and a number, if that is what computes
  /// `id`.
  std::optional<Shifted> SumWithNumber(ValueId id) const;
  /// Returns the value `id` as a polynomial in `x`, if it is one and its degree is at most 3.
  std::optional<Polynomial> PolynomialIn(ValueId id, ValueId x) const;

  /// Records that a pattern almost matched at `id`. `why` states the reason why it did not.
  void Miss(std::string_view pattern, ValueId id, std::string_view why) const;
  /// Returns the descriptions that Miss has recorded.
  const std::vector<std::string>& misses() const { return misses_; }
  /// Returns the cache of NarrowOf.
  std::map<ValueId, std::optional<Narrow>>& narrows() const { return narrows_; }

 private:
  std::optional<Polynomial> PolynomialIn(ValueId id, ValueId x,
                                         int* steps) const;
  void AddFactors(ValueId id, int depth, Product* product) const;

  const Graph& graph_;
  std::vector<int> uses_;
  mutable std::vector<std::string> misses_;
  mutable std::map<ValueId, std::optional<Narrow>> narrows_;  // cache
};

/// Returns whether two numbers differ by at most a relative 1e-6, about the precision of f32.
bool IsNear(double a, double b);

/// Returns the table of the elements of value `id`. Returns null if the value depends on a leaf or
/// on an op that does not occur in masks, or if the table has more than 2^24 elements. Linear in
/// the numbers of nodes and elements. Results are cached in `e`.
const Narrow* NarrowOf(const Expressions& e, ValueId id);

/// Removes a factor 1 / sqrt(v) from `product` and returns v. The factor may be a divisor sqrt(v),
/// an rsqrt, or the reciprocal of a root, and may be broadcast. Returns nullopt if no such factor
/// exists, or if `product` has other divisors.
std::optional<ValueId> TakeBelowRoot(const Expressions& e, Product* product);

/// Returns whether a value, before any broadcast, has exactly `features` elements, all along its
/// last axis.
bool IsOfFeatures(const Expressions& e, ValueId id, int64_t features);

/// A factor of an axis's size that no reshape splits further. For example, if a reshape splits an
/// axis of 768 elements into 12 heads of 64 elements, the axis has a part of size 12 and a part of
/// size 64.
struct Part {
  int64_t size = 1;
  bool repeated = false;  // added by a broadcast; not part of the source
};

/// Describes how the axes of a value correspond to the axes of another value, its source. The value
/// is computed from the source only by copies, reshapes, permutations, broadcasts and
/// multiplications by constants. Exporters express one permutation of attention heads by many such
/// nodes, but a pattern only needs to know the axis of the source for each axis of the value.
///
///   const Layout k = LayoutOf(e, transposed);  // permute(reshape(copy(permute(x))))
///   k.source;                                  // x
///   k.axes;                                    // {{0}, {2}, {3}, {1}}: x's first axis, ...
struct Layout {
  ValueId source = 0;
  double factor = 1;  // value = factor * source
  std::vector<Part> parts = {};
  /// The parts of each axis of the value, as indices into `parts`. The first part of an axis varies
  /// slowest. Axes of one element have no parts. `of_source` lists the parts of all axes of the
  /// source, in order.
  std::vector<std::vector<int>> axes = {};
  std::vector<int> of_source = {};
};

/// Returns the layout of a value. A value that is computed by another op is its own source.
Layout LayoutOf(const Expressions& e, ValueId id);

/// Returns the number of elements of `axis`, a list of indices of parts, without repeated parts.
int64_t SizeOf(const Layout& layout, const std::vector<int>& axis);
/// Returns whether `axes` contain each part of the source exactly once and no repeated part.
bool IsWhole(const Layout& layout, const std::vector<std::vector<int>>& axes);
/// Returns `source`, the value layout.source in a builder, permuted and reshaped to these axes.
/// Requires `IsWhole(layout, axes)`.
Value Arranged(const Layout& layout, const std::vector<std::vector<int>>& axes,
               Value source);

/// A canonical op that replaces the first result of a node.
struct Match {
  /// The name of the pattern in Canonicalized::found. If empty, the match is not counted.
  std::string_view pattern;
  std::vector<ValueId> operands;
  /// Adds the canonical op to a builder, where the operands are the given values, and returns the
  /// replacement.
  std::function<Value(GraphBuilder&, std::span<const Value>)> emit;
};

// The following functions return the canonical op that can replace the formula whose last node is
// `id`, or nullopt if the formula does not match the pattern.

std::optional<Match> MatchGelu(const Expressions& e, NodeId id);
std::optional<Match> MatchSilu(const Expressions& e, NodeId id);
std::optional<Match> MatchGate(const Expressions& e, NodeId id);
std::optional<Match> MatchSoftplus(const Expressions& e, NodeId id);
std::optional<Match> MatchMish(const Expressions& e, NodeId id);
std::optional<Match> MatchHardSwish(const Expressions& e, NodeId id);
std::optional<Match> MatchRmsNorm(const Expressions& e, NodeId id);
std::optional<Match> MatchLayerNorm(const Expressions& e, NodeId id);
/// Matches a sum that adds beta to a layer norm.
std::optional<Match> MatchLayerNormShift(const Expressions& e, NodeId id);
/// Matches a convolution whose filters cover the whole image, which is a linear layer.
std::optional<Match> MatchLinearConv(const Expressions& e, NodeId id);
std::optional<Match> MatchLinearCrossEntropy(const Expressions& e, NodeId id);
std::optional<Match> MatchAttention(const Expressions& e, NodeId id);
/// Matches a permutation of a permutation, and a copy of the result of `attention`. Permutations
/// remain around a matched `attention` if the imported code has heads before positions, since
/// `attention` expects positions before heads.
std::optional<Match> MatchPermutation(const Expressions& e, NodeId id);

}  // namespace stowage::canonical

#endif  // STOWAGE_IR_CANONICALIZE_EXPRESSIONS_H_
