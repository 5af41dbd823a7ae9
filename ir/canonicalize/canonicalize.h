#ifndef STOWAGE_IR_CANONICALIZE_CANONICALIZE_H_
#define STOWAGE_IR_CANONICALIZE_CANONICALIZE_H_

// Replaces the formulas of imported graphs by canonical ops. An exporter writes GELU with
// erf, and a model's own code writes RMS norm as a square, a mean and a product; backward
// saves each of these values, where the op saves its operand alone. After this pass an
// imported model costs what the same model costs that is built of layers.
//
//   Result<Canonicalized> canonical = Canonicalize(forward);
//   canonical->found;  // {"gelu": 12, "rms_norm": 25}
//
// A pattern equals its op as a formula: values and gradients are the same up to rounding.
// Each family has a file: activations.cc, normalization.cc, linear.cc, attention.cc. A
// formula whose parts have other readers is replaced too, and these parts stay.

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

struct Canonicalized {
  Graph graph;
  std::map<std::string, int> found = {};  // matches by name of the pattern
  /// Places where a pattern almost matched, with the obstacle.
  std::vector<std::string> misses = {};
};

/// `graph`, a forward graph, with canonical ops. Leaves, outputs and values written in place
/// keep their names; nodes without readers are dropped. At most four linear passes.
Result<Canonicalized> Canonicalize(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_CANONICALIZE_CANONICALIZE_H_
