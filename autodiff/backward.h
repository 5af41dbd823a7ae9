#ifndef STOWAGE_AUTODIFF_BACKWARD_H_
#define STOWAGE_AUTODIFF_BACKWARD_H_

// Derives the backward graph of a forward graph by reverse-mode differentiation.
//
// BuildBackward returns a separate graph, the backward graph. Its leaves are:
//   - the forward results that it reads, with the role saved, under their forward names
//   - the params, inputs and states that it reads, under their own names
//   - the seed, which is the gradient of the loss, as an input called "grad:<loss>"
// The outputs of the backward graph are the gradients of the requested params, called
// "grad:<param>".
//
// The saved tensors are exactly the leaves with the role saved. Views are rebuilt from their roots,
// and fills, iotas and constants are emitted a second time, so none of them is saved. A forward
// graph may write its states (Assign, LerpUpdate). If the backward graph reads the old content of a
// state, that content is a saved leaf. When the two graphs are linked (LinkBackward,
// autodiff/train_step.h), a copy of the old content is added.
//
// Values in the body of a loop are saved for every iteration: the forward loop returns them,
// stacked, as an additional result. The backward graph calls this result "<value>@<loop>", where
// <loop> is the name of the loop's first result. In nested loops the name is
// "<value>@<inner>@<outer>". SaveInLoops adds these results to the forward graph.
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
  /// The names of the float params and inputs whose gradients are computed. If empty, the gradients
  /// of all float params are computed.
  std::vector<std::string> wrt = {};
};

/// Returns the backward graph of `forward` for the scalar called `loss`. The graph contains only
/// the nodes that the requested gradients need.
///
/// Returns kNotFound if `forward` has no value called `loss` or lacks a value in `wrt`. Returns
/// kInvalidArgument in these cases:
///   - The loss is not a float scalar.
///   - A name in `wrt` is a duplicate, or is not a float param or input.
///   - `wrt` is empty and `forward` has no float params.
///   - The loss does not depend on a requested param or input through ops that have gradients.
///   - `forward` overwrites a param.
/// Returns kUnsupported if a requested gradient flows through an op that is not differentiable.
/// Linear in the number of nodes of `forward`.
Result<Graph> BuildBackward(const Graph& forward, std::string_view loss,
                            const BackwardOptions& options = {});

/// Returns the names of the float params that no gradient of `loss` reaches, such as a mask that is
/// only compared. Returns the errors of BuildBackward, except that unreached params are not an
/// error. Linear in the number of nodes.
Result<std::vector<std::string>> FindUnreachedParams(const Graph& forward,
                                                     std::string_view loss);

/// Returns the name of the loop result that stacks a value of the body over all iterations. `value`
/// is the name of the body's value, and `loop` is the name of the loop's first result.
std::string SavedInLoopName(std::string_view value, std::string_view loop);

/// Returns `forward` with additional loop results: the values of loop bodies for which `backward`
/// has saved leaves, stacked over the iterations. Returns an unchanged copy if no result is
/// missing. Leaves, names and outputs are kept, but value ids may change. Linear in the number of
/// nodes, plus the number of saved leaves times the number of loops.
Result<Graph> SaveInLoops(const Graph& forward, const Graph& backward);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_BACKWARD_H_
