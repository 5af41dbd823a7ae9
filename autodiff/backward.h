#ifndef STOWAGE_AUTODIFF_BACKWARD_H_
#define STOWAGE_AUTODIFF_BACKWARD_H_

// Reverse-mode differentiation, graph to graph.
//
// BuildBackward reads a forward graph and writes a separate backward graph. Its
// leaves are the forward values it reads (role saved, under their forward
// names), the params and inputs it reads (under their own names) and the seed,
// the gradient of the loss, an input called "grad:<loss>". Its outputs are one
// gradient per requested param, called "grad:<param>". What backward must keep
// is nowhere listed: it is what the emitted graph reads. Views are taken again
// from their saved roots, fills and constants made again, so neither is ever
// saved. A forward graph may write its states (Assign, LerpUpdate); one whose old
// content backward reads is a saved leaf of its name, and whoever links the two
// keeps a copy of it. What the bodies of loops must keep are saved leaves too, that
// the forward graph lacks at first: SaveInLoops (autodiff/saved_in_loops.h).
//
//   Result<Graph> backward = BuildBackward(forward, "loss");

#include <string>
#include <string_view>
#include <vector>

#include "autodiff/sweep.h"  // IWYU pragma: export
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

struct BackwardOptions {
  /// Names of float params and inputs to differentiate by; empty means all
  /// float params.
  std::vector<std::string> wrt = {};
};

/// The backward graph of `forward` for the scalar called `loss`. Emits nothing
/// that no requested gradient needs. Errors: no such value; the loss is not a
/// float scalar; a name in `wrt` is unknown, twice there, or not of a float
/// type; a requested value does not reach the loss (named); the way to it leads
/// through an op that is not differentiable (named); forward overwrites a param.
/// Linear in the nodes of `forward`.
Result<Graph> BuildBackward(const Graph& forward, std::string_view loss,
                            const BackwardOptions& options = {});

/// The float params that no gradient of `loss` reaches, such as a mask that is compared
/// with. Errors: those of BuildBackward but for this; no float params. Linear.
Result<std::vector<std::string>> FindUnreachedParams(const Graph& forward,
                                                     std::string_view loss);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_BACKWARD_H_
