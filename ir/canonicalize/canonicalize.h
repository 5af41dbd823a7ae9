#ifndef STOWAGE_IR_CANONICALIZE_CANONICALIZE_H_
#define STOWAGE_IR_CANONICALIZE_CANONICALIZE_H_

// Replaces formulas in imported graphs with canonical ops. For example, exporters express GELU
// with erf, and model code expresses RMS norm as a square, a mean and a multiplication. The
// backward pass saves each of these intermediate values, whereas the canonical op saves only its
// operand. After this pass, an imported model needs the same memory and time as the model that is
// built from layers.
//
//   Result<Canonicalized> canonical = Canonicalize(forward);
//   canonical->found;  // {"gelu": 12, "rms_norm": 25}
//
// A pattern is mathematically equal to its op, except that a constant in a formula may differ from
// the op's constant by a relative 1e-6. Values and gradients are therefore the same up to rounding.
// Each family of patterns has a file: activations.cc, normalization.cc, linear.cc, attention.cc. A
// formula is also replaced if its intermediate values have other readers. Those values remain in
// the graph.

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

struct Canonicalized {
  Graph graph;
  /// The number of formulas that were replaced, by the name of the pattern.
  std::map<std::string, int> found = {};
  /// Descriptions of values at which a pattern almost matched in the last pass, each with the
  /// reason why it did not.
  std::vector<std::string> misses = {};
};

/// Returns `graph`, a forward graph, with canonical ops. Leaves, outputs and values that are
/// written in place keep their names. If at least one formula is replaced, all nodes on which no
/// output, update, collective or control-flow node depends are removed. Propagates errors of
/// GraphBuilder::Finish. Makes at most four passes, each linear in the size of the graph.
Result<Canonicalized> Canonicalize(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_CANONICALIZE_CANONICALIZE_H_
