#ifndef STOWAGE_AUTODIFF_BACKWARD_H_
#define STOWAGE_AUTODIFF_BACKWARD_H_

// Reverse-mode differentiation, graph to graph.
//
// BuildBackward reads a forward graph and writes a separate backward graph. Its leaves are
// the forward values it reads (role saved, under their forward names), the params and
// inputs it reads (under their own names) and the seed, the gradient of the loss, an input
// called "grad:<loss>". Its outputs are one gradient per requested param, called
// "grad:<param>". The saved tensors are exactly the leaves of the backward graph. Views are
// taken again from their saved roots, and fills and constants emitted again, so neither is
// ever saved. A forward graph may write its states (Assign, LerpUpdate); if backward reads
// the old content of one, it is a saved leaf, and linking the graphs adds a copy.
//
// The body of a loop saves values for every iteration: the forward loop stacks them into a
// further result. A backward graph calls such a result "<value>@<loop>", after the loop's
// first result, and for a loop in a loop "<value>@<inner>@<outer>". SaveInLoops adds these
// results to the forward graph.
//
//   Result<Graph> backward = BuildBackward(forward, "loss");
//   Result<Graph> saving = SaveInLoops(forward, *backward);

#include <string>
#include <string_view>
#include <vector>

#include "autodiff/vjp.h"  // IWYU pragma: export
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

struct BackwardOptions {
  /// Names of float params and inputs to differentiate by; empty means all
  /// float params.
  std::vector<std::string> wrt = {};
};

/// The backward graph of `forward` for the scalar called `loss`, with only the nodes that
/// the requested gradients need. Errors: no such value; the loss is not a float scalar; a
/// name in `wrt` is unknown, duplicate or not of a float type; a requested value does not
/// reach the loss, or only through an op that is not differentiable; forward overwrites a
/// param. Linear in the nodes of `forward`.
Result<Graph> BuildBackward(const Graph& forward, std::string_view loss,
                            const BackwardOptions& options = {});

/// The float params that no gradient of `loss` reaches, such as a mask in a comparison.
/// Errors: the other errors of BuildBackward; no float params. Linear.
Result<std::vector<std::string>> FindUnreachedParams(const Graph& forward,
                                                     std::string_view loss);

/// The name of the result that stacks `value` of the body of the loop called `loop`.
std::string SavedInLoopName(std::string_view value, std::string_view loop);

/// `forward`, whose loops also return, stacked, the values of their bodies for which
/// `backward` has saved leaves; `forward` itself if it has them all. Leaves, names and
/// outputs stay; ids of values change. Linear in the nodes, plus saved leaves times loops.
Result<Graph> SaveInLoops(const Graph& forward, const Graph& backward);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_BACKWARD_H_
