#ifndef STOWAGE_AUTODIFF_REPEATED_PIECE_H_
#define STOWAGE_AUTODIFF_REPEATED_PIECE_H_

// A training step whose pieces are all of one size, as one piece that a loop repeats
// and the updates after it.
//
//   Result<RepeatedPiece> step =
//       BuildRepeatedPiece(whole, eighth, /*times=*/8, "loss", options);

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/train_options.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

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

#endif  // STOWAGE_AUTODIFF_REPEATED_PIECE_H_
