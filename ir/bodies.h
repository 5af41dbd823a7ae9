#ifndef STOWAGE_IR_BODIES_H_
#define STOWAGE_IR_BODIES_H_

// Provides access to the graphs inside a control-flow node: the body of a `loop` and the bodies of
// a `cond`.
//
// A body is an ordinary Graph, with its own name and source lines. Its leaves, which all have the
// role input, correspond to the operands of the node, in order. Its outputs correspond to the
// results of the node. Each output owns its bytes and occurs once, so that the body can write it
// directly to the memory of the node's result.
//
// A loop runs its body `iterations` times. Its values are of five kinds:
//
//   kind      operand of the node    leaf of the body       output        result
//   carried   initial value          current value          next value    final value
//   sliced    all slices             the iteration's slice
//   whole     a value                the same value
//   summed                           the sum so far, from 0 the next sum  the sum
//   stacked                                                 a slice       all slices
//
// In terms of JAX's scan, carried values are the carry, sliced values are the scan inputs (xs),
// and stacked values are the scan outputs (ys). Whole values are loop invariants. Operands are in
// the order of these rows, and so are leaves, outputs and results. Slices are indexed by the first
// axis, whose size is the number of iterations. Iteration i reads or writes slice i, or slice
// iterations - 1 - i with `reverse`.
//
// A cond runs one of its bodies. Its first operand is a scalar, the index of the body. False is
// index 0. In each body, the leaves correspond to all further operands, and the outputs to the
// results.
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

/// Returns the bodies of `node`, or an empty span if `node` is not a loop or a cond.
std::span<const std::shared_ptr<const Graph>> BodiesOf(const Node& node);

/// Returns the maximum number of times that `node` runs each of its bodies.
int64_t IterationsOf(const Node& node);

/// The maximum nesting depth of bodies in the forms that ParseGraph and GraphFromBytes read.
inline constexpr int kMaxBodyDepth = 16;

/// The body of a loop and the number of values of each kind. These numbers determine the indices of
/// a kind's values among operands, leaves and outputs.
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
  /// Returns the number of values that pass from one iteration to the next. They are the carried
  /// values, followed by the summed values.
  size_t handed_on() const { return carried + summed; }
  size_t outputs() const { return handed_on() + stacked; }
  bool is_sliced(size_t operand) const {
    return operand >= carried && operand < carried + sliced;
  }
  /// Returns the leaf index of a value that passes to the next iteration, where `handed` is its
  /// index among these values. `handed` is also its output index.
  size_t leaf_of(size_t handed) const {
    return handed < carried ? handed : handed + sliced + whole;
  }
  /// Returns the index of the slice that iteration `i` reads and writes.
  int64_t slice(int64_t i) const { return reverse ? iterations - 1 - i : i; }
};

/// Returns the body of a loop and the numbers of its values. `attrs` must be the attributes of a
/// loop that OpDef::infer has accepted with `operands` operands. The result refers to the body,
/// which `attrs` keeps alive.
LoopParts PartsOfLoop(const Attrs& attrs, size_t operands);
/// Does the same for the attributes and operands of `node`, a loop.
LoopParts PartsOfLoop(const Node& node);

/// Returns the leaves of `body`, in order.
std::vector<ValueId> LeavesOf(const Graph& body);

}  // namespace stowage

#endif  // STOWAGE_IR_BODIES_H_
