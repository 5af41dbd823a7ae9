#ifndef STOWAGE_IR_CANONICALIZE_CANONICALIZE_H_
#define STOWAGE_IR_CANONICALIZE_CANONICALIZE_H_

// Canonical ops for what imported graphs spell out. An exporter writes GELU as erf, and a
// model's own code writes RMS norm as a square, a mean and a product: each of these values
// is kept for backward, where one op keeps its operand alone. The pass finds such
// expressions and puts the op in their place, so that an imported model costs what the same
// model costs that is built of layers.
//
//   Result<Canonicalized> canonical = Canonicalize(forward);
//   canonical->found;  // {"gelu": 12, "rms_norm": 25}
//
// A pattern equals its op as a formula: values and gradients are the same to rounding. One
// file has one family: gelu.cc, gates.cc, layer_norm.cc. Expressions that other nodes read in
// part are replaced, too, and the part stays.

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

struct Canonicalized {
  Graph graph;
  std::map<std::string, int> found = {};  // patterns by name, how often
  /// Where one was almost found, and what was in its way.
  std::vector<std::string> misses = {};
};

/// A forward graph with canonical ops. Leaves, outputs and what is written in place stay,
/// with their names; nodes that nothing reads any more are left out. A few times linear.
Result<Canonicalized> Canonicalize(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_CANONICALIZE_CANONICALIZE_H_
