#ifndef STOWAGE_AUTODIFF_TRAIN_STEP_H_
#define STOWAGE_AUTODIFF_TRAIN_STEP_H_

// Forward, backward and update linked into one graph on one timeline.
//
// The saved inputs of the backward graph become the forward values themselves,
// the seed becomes 1, or a loss scale, and the update of each param follows directly on the last
// node that makes its gradient and the last that reads the param, so that a
// gradient dies as soon as it has been consumed. Clipping by global norm and loss
// scaling need every gradient before the first update; then the updates come last.
//
// A linear_cross_entropy that is the loss, and that nothing else reads, is left
// out of the forward part: its gradient makes the loss too, and so the logits
// are made once in a step and never kept.
//
//   Result<Graph> step = BuildTrainStep(forward, "loss",
//                                       {.optimizer = AdamW{}});
//   // step inputs: the forward graph's, "lr" (f32) and "step" (i64); and "seed"
//   // (i64), where the optimizer rounds by chance (autodiff/optimizer.h)

#include <string_view>

#include "autodiff/train_options.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// The training step of `forward`: its outputs are the forward graph's, then the
/// gradients, the norm and what is told of a loss scale (autodiff/train_options.h) that
/// `options` asks for. States that `forward` writes are
/// the step's. Errors: those of BuildBackward; a name in `wrt` that is not a
/// param's; a pattern in `gradients` that no trained param has, a name in `sums`
/// that is no output's; a forward graph that has a cache, or already a value "lr", or
/// one "step", or a "seed" that the optimizer reads, that is not an input of an i64
/// scalar, or with loss scaling one of its names; a decay, beta or norm outside its
/// range; those of CheckLossScaling, CheckParamGroups and WithoutFrozen; kUnsupported for
/// an update rule that cannot be skipped. Linear in the nodes of `forward`, but for
/// constants, each of which backward compares with all of forward's, and for
/// param groups, each of which is compared with every param.
Result<Graph> BuildTrainStep(const Graph& forward, std::string_view loss,
                             const TrainOptions& options = {});

/// One graph that runs `forward` and then `backward` (from BuildBackward on
/// it), saved values wired up, the seed a fill of 1, the gradients still
/// outputs. Error: `backward` reads a value that `forward` does not have, or
/// has of another type.
Result<Graph> LinkBackward(const Graph& forward, const Graph& backward,
                           std::string_view loss);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_TRAIN_STEP_H_
