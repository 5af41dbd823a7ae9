#ifndef STOWAGE_AUTODIFF_MICRO_BATCHES_H_
#define STOWAGE_AUTODIFF_MICRO_BATCHES_H_

// A training step that takes its batch in pieces, so that only one piece's
// activations are alive at a time.
//
//   const Graph* const pieces[] = {&half, &half};  // of the same model
//   Result<MicroBatchedStep> step =
//       BuildMicroBatchedStep(whole, pieces, "loss", {.optimizer = AdamW{}});

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/train_options.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

// What a step is whose batch is taken in pieces: a graph, and where in it each piece
// begins.
//
//   Result<MicroBatchedStep> step =
//       BuildMicroBatchedStep(whole, {{&half, &half}}, "loss");
//   // step->begins[1] is the first node of the second half.

/// A step whose batch is taken in pieces.
struct MicroBatchedStep {
  Graph graph = {};
  /// By piece that is built: its first node, and how many it stands for.
  std::vector<NodeId> begins = {};
  std::vector<int64_t> counts = {};
};

/// Which pieces of a batch are built. Pieces of one size between the first and
/// the last do the same with other examples; `kOneOfAKind` builds one of these
/// only, and is for planning what a step of many pieces needs.
enum class Pieces : uint8_t { kAll, kOneOfAKind };

/// The step that `g` has built, whose pieces begin at the nodes `begins`, as long as the
/// graph grew, and stand for `counts` each. Error: the builder's.
Result<MicroBatchedStep> FinishPieces(GraphBuilder& g,
                                      const std::vector<NodeId>& begins,
                                      std::vector<int64_t> counts);

/// Puts what `rewrite` makes of a step in its place: pieces begin at the first node of
/// theirs that is still there. Error: that of `rewrite`; the step is then as it was.
Status RewriteStep(MicroBatchedStep* step,
                   const std::function<Result<Graph>(const Graph&)>& rewrite);

/// The training step of `whole` that takes its batch in pieces, one after the
/// other, so that only one piece's activations are alive at a time: gradients
/// add up, and the params are updated once, with the last piece's. `pieces` are
/// graphs of the same model for parts of the batch, in order; a graph may occur
/// many times. Inputs that are larger in `whole` are cut along the one dimension
/// that differs; the loss must be a mean over it. Other outputs are joined along it,
/// averaged or added (autodiff/pieces_in_turn.h), and a state that the model writes
/// goes on from piece to piece. Pieces of different sizes count by their share.
/// Values of piece i are called "<name>/<i>", from 1. Each piece draws dropouts of
/// its own. Errors: those of BuildTrainStep; pieces that do not make up the batch,
/// or an output of it.
Result<MicroBatchedStep> BuildMicroBatchedStep(
    const Graph& whole, std::span<const Graph* const> pieces,
    std::string_view loss, const TrainOptions& options = {},
    Pieces which = Pieces::kAll);

// A training step whose pieces are all of one size, as one piece that a loop repeats
// and the updates after it.
//
//   Result<RepeatedPiece> step =
//       BuildRepeatedPiece(whole, eighth, /*times=*/8, "loss", options);

/// A step whose pieces are all of one size, as one piece that a loop can repeat.
struct RepeatedPiece {
  /// Totals of the whole batch (autodiff/split_model.h), whose origin is kTotals; the
  /// piece; then the updates. What adds up over the pieces begins as a leaf of
  /// role saved, "sum:<name>", which one `add` reads; an output that has a part of
  /// each, as a fill that one `slice_update` writes to. The piece reads the first
  /// part of what is cut.
  Graph graph = {};
  NodeId first = 0;                 // the first node of the piece
  NodeId updates = 0;               // the first node that is no piece's
  std::vector<std::string> cut;     // names of inputs
  std::vector<std::string> joined;  // names of the fills
};

/// The step of BuildMicroBatchedStep that takes `whole` in `times` pieces like
/// `piece`: the same sums in the same order, with the updates after the last piece.
/// Values of the piece are called "<name>/1". Errors: those of
/// BuildMicroBatchedStep; kUnsupported for a piece that draws dropouts or writes
/// states, which differ from piece to piece, and where the batch is not the first
/// dimension of all that has it, so that a piece would be no slice.
Result<RepeatedPiece> BuildRepeatedPiece(const Graph& whole, const Graph& piece,
                                         int64_t times, std::string_view loss,
                                         const TrainOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_MICRO_BATCHES_H_
