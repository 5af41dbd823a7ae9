#ifndef STOWAGE_AUTODIFF_MICRO_BATCHES_H_
#define STOWAGE_AUTODIFF_MICRO_BATCHES_H_

// A training step that takes its batch in pieces, so that only one piece's
// activations are alive at a time.
//
//   const Graph* const pieces[] = {&half, &half};  // of the same model
//   Result<MicroBatchedStep> step =
//       BuildMicroBatchedStep(whole, pieces, "loss", {.optimizer = AdamW{}});

#include <span>
#include <string_view>

#include "autodiff/pieces.h"
#include "autodiff/train_options.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// The training step of `whole` that takes its batch in pieces, one after the
/// other, so that only one piece's activations are alive at a time: gradients
/// add up, and the params are updated once, with the last piece's. `pieces` are
/// graphs of the same model for parts of the batch, in order; a graph may occur
/// many times. Inputs that are larger in `whole` are cut along the one dimension
/// that differs; the loss must be a mean over it. Other outputs are joined along it,
/// averaged or added (autodiff/piece_outputs.h), and a state that the model writes
/// goes on from piece to piece. Pieces of different sizes count by their share.
/// Values of piece i are called "<name>/<i>", from 1. Each piece draws dropouts of
/// its own. Errors: those of BuildTrainStep; pieces that do not make up the batch,
/// or an output of it.
Result<MicroBatchedStep> BuildMicroBatchedStep(
    const Graph& whole, std::span<const Graph* const> pieces,
    std::string_view loss, const TrainOptions& options = {},
    Pieces which = Pieces::kAll);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_MICRO_BATCHES_H_
