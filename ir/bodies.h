#ifndef STOWAGE_IR_BODIES_H_
#define STOWAGE_IR_BODIES_H_

// The graphs inside a node of control flow: the body of a `loop`, the bodies of a
// `cond`.
//
// A body is a Graph like any other, with a name and source lines of its own, and
// stands alone: its leaves, all of role input, stand for what the node hands to it,
// by their order, and its outputs for what it hands back. Every output owns its bytes
// and is there once, so that it can be written where the result of the node lies.
//
// A loop runs its body `iterations` times.
//
//   kind      operand of the node    leaf of the body       output        result
//   carried   its first content      its content so far     its next one  its last one
//   sliced    one more axis, first   the iteration's slice
//   whole     as it is               the same
//   summed                           the sum so far, from 0 the next sum  the sum
//   stacked                                                 a slice       one more axis
//
// Operands and leaves, outputs and results stand in the order of these rows. Iteration
// i takes slice i, or with `reverse` slice iterations - 1 - i, of everything that has
// slices.
//
// A cond runs one of its bodies: its first operand, a scalar, says which, false being
// the first. Leaves stand for all further operands, in each body for the same ones,
// and outputs for the results.
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

/// The bodies of `node`; none of most nodes.
std::span<const std::shared_ptr<const Graph>> BodiesOf(const Node& node);

/// How often `node` runs each of its bodies at most.
int64_t IterationsOf(const Node& node);

/// So many bodies may stand in one another.
inline constexpr int kMaxBodyDepth = 16;

/// What the values of a loop are, by their places in operands, leaves and outputs.
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
  /// Carried, then summed: what an iteration takes from the one before.
  size_t handed_on() const { return carried + summed; }
  size_t outputs() const { return handed_on() + stacked; }
  bool is_sliced(size_t operand) const {
    return operand >= carried && operand < carried + sliced;
  }
  /// The place among the leaves, and among the outputs, of what is handed on.
  size_t leaf_of(size_t handed) const {
    return handed < carried ? handed : handed + sliced + whole;
  }
  /// Which slice iteration `i` takes.
  int64_t slice(int64_t i) const { return reverse ? iterations - 1 - i : i; }
};

/// Precondition: `attrs` are a loop's that OpDef::infer took with `operands` operands.
LoopParts PartsOfLoop(const Attrs& attrs, size_t operands);
LoopParts PartsOfLoop(const Node& node);

/// The leaves of a body, in order.
std::vector<ValueId> LeavesOf(const Graph& body);

}  // namespace stowage

#endif  // STOWAGE_IR_BODIES_H_
