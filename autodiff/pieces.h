#ifndef STOWAGE_AUTODIFF_PIECES_H_
#define STOWAGE_AUTODIFF_PIECES_H_

// What a step is whose batch is taken in pieces: a graph, and where in it each piece
// begins.
//
//   Result<MicroBatchedStep> step =
//       BuildMicroBatchedStep(whole, {{&half, &half}}, "loss");
//   // step->begins[1] is the first node of the second half.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

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

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_PIECES_H_
