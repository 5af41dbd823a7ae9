#ifndef STOWAGE_IR_BODIES_H_
#define STOWAGE_IR_BODIES_H_

// The graphs inside a control-flow node: the body of a `loop`, the bodies of a `cond`.
//
// A body is a Graph like any other, with a name and source lines of its own. Its leaves, all
// of role input, stand for operands of the node, in order, and its outputs for the node's
// results. Every output owns its bytes and occurs once, so that it can be written where the
// result of the node is placed.
//
// A loop runs its body `iterations` times.
//
//   kind      operand of the node    leaf of the body       output        result
//   carried   initial content        current content        next content  last content
//   sliced    one more axis, first   the iteration's slice
//   whole     a value                the same value
//   summed                           the sum so far, from 0 the next sum  the sum
//   stacked                                                 a slice       one more axis
//
// In scan terms, carried values are the carry, sliced ones xs and stacked ones ys. Operands,
// leaves, outputs and results are in the order of these rows. Iteration i takes slice i, or
// with `reverse` slice iterations - 1 - i, of sliced and stacked values.
//
// A cond runs one of its bodies, which its first operand, a scalar, selects; false is the
// first body. Leaves stand for all further operands, the same in each body, and outputs for
// the results.
//
//   const LoopParts loop = PartsOfLoop(node);
//   loop.iterations; loop.carried;

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/attrs.h"
#include "ir/graph.h"

namespace stowage {

/// The bodies of `node`; empty for other ops.
std::span<const std::shared_ptr<const Graph>> BodiesOf(const Node& node);

/// The most times that `node` runs each of its bodies.
int64_t IterationsOf(const Node& node);

/// The limit on the nesting depth of bodies.
inline constexpr int kMaxBodyDepth = 16;

/// The kinds of a loop's values, by their indices among operands, leaves and outputs.
struct LoopParts {
  const Graph& body;
  int64_t iterations = 1;
  bool reverse = false;
  size_t carried = 0;
  size_t sliced = 0;
  size_t whole = 0;
  size_t summed = 0;
  size_t stacked = 0;

  size_t operands() const { return carried + sliced + whole; }
  /// The number of values passed from one iteration to the next: carried, then summed.
  size_t handed_on() const { return carried + summed; }
  size_t outputs() const { return handed_on() + stacked; }
  bool is_sliced(size_t operand) const {
    return operand >= carried && operand < carried + sliced;
  }
  /// The leaf of value `handed` of these; its output has the same index.
  size_t leaf_of(size_t handed) const {
    return handed < carried ? handed : handed + sliced + whole;
  }
  /// The slice of iteration `i`.
  int64_t slice(int64_t i) const { return reverse ? iterations - 1 - i : i; }
};

/// Precondition: `attrs` are a loop's, which OpDef::infer has accepted with `operands` operands.
LoopParts PartsOfLoop(const Attrs& attrs, size_t operands);
LoopParts PartsOfLoop(const Node& node);

/// The leaves of a body, in order.
std::vector<ValueId> LeavesOf(const Graph& body);

}  // namespace stowage

#endif  // STOWAGE_IR_BODIES_H_
