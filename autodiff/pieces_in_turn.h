#ifndef STOWAGE_AUTODIFF_PIECES_IN_TURN_H_
#define STOWAGE_AUTODIFF_PIECES_IN_TURN_H_

// Pieces of a batch one after the other: forward and backward of each on one timeline,
// their outputs put together, their states handed on, and their gradients told to
// whoever adds them up.
//
//   PiecesInTurn loop(whole, whole, pieces, "loss", {}, options, &g);
//   STOWAGE_RETURN_IF_ERROR(loop.Run(Pieces::kAll, &updater, add, [] {}));
//   return FinishPieces(g, loop.begins(), loop.counts());

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/batch_axes.h"
#include "autodiff/linker.h"
#include "autodiff/piece_outputs.h"
#include "autodiff/pieces.h"
#include "autodiff/ranks.h"
#include "autodiff/split_model.h"
#include "autodiff/train_options.h"
#include "autodiff/updater.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"

namespace stowage {

/// A gradient that a piece has made, when nothing will read its param any more.
struct Gradient {
  std::string name;  // of the param
  Value param;
  Value gradient;
  SourceLoc source;
  bool is_first, is_last;  // piece
};

/// Everything of a step but what becomes of the gradients.
class PiecesInTurn {
 public:
  /// The pieces make up `part` of the batch `whole`, or all of it. All must outlive
  /// this.
  PiecesInTurn(const Graph& whole, const Graph& part,
               std::span<const Graph* const> pieces, std::string_view loss,
               const Ranks& ranks, const TrainOptions& options, GraphBuilder* g)
      : part_(part),
        pieces_(pieces),
        loss_(loss),
        options_(options),
        g_(*g),
        leaves_(part, g),
        axes_(whole, part),
        model_(whole, part, loss, ranks, options.allow_batch_change),
        ranks_(ranks),
        outputs_(whole, part, model_, loss, g) {}

  /// `add` takes each gradient, `end_piece` is called after each piece. The ranks
  /// before this one have drawn dropouts for as many pieces each. Errors: those of
  /// Differentiate; pieces that do not make up the part, or an output of it.
  Status Run(Pieces which, Updater* updater,
             const std::function<void(const Gradient&)>& add,
             const std::function<void()>& end_piece);

  /// Of the pieces that Run has built, for FinishPieces.
  const std::vector<NodeId>& begins() const { return begins_; }
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  void MapLeaves(const Graph& piece, Linker* linker);

  const Graph& part_;
  const std::span<const Graph* const> pieces_;
  const std::string_view loss_;
  const TrainOptions& options_;
  GraphBuilder& g_;
  GraphCopy leaves_;
  BatchAxes axes_;
  SplitModel model_;
  const Ranks ranks_;
  PieceOutputs outputs_;
  std::map<std::string, Value> states_;  // as the pieces so far left them
  std::vector<NodeId> begins_;  // of the pieces, as long as the graph grows
  std::vector<int64_t> counts_;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_PIECES_IN_TURN_H_
