#ifndef STOWAGE_PLANNER_FIT_PIECES_PIECES_H_
#define STOWAGE_PLANNER_FIT_PIECES_PIECES_H_

// A step that takes its batch in pieces, and the sample it is planned by.
//
// Pieces run one after the other, their gradients add up, and only one piece's
// activations are alive at a time. More pieces need less for these, but the sums
// of gradients have to live from one to the next.
//
// Between the first piece and the last, pieces of one size do the same. So a
// step is planned as a *sample* that has one piece of each kind, whose nodes cost
// as much as all pieces of the kind together. The sample has the peak of the
// whole step, and what is chosen for one of its pieces is done in all that are
// like it: the effort does not grow with the number of pieces.
//
//   StepBuilder build = ...;  // who builds a step is not known here
//   Result<PiecedStep> sample = build(8, Sampling::kOneOfAKind);
//   Result<Script> script = StretchScript(*sample, chosen, *build(8, Sampling::kAll));

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/levers.h"
#include "planner/fit/recompute/rehearsal.h"

namespace stowage {

/// How the first piece of a graph is repeated (planner/fit/pieces/pieces.h).
struct PieceLoop {
  /// Inputs of which the piece takes the first part, by a `slice` of the first axis;
  /// the next piece takes the next.
  std::vector<std::string> cut;
  /// Fills that the piece puts its part into, by a `slice_update` at place 0; the next
  /// piece's follows.
  std::vector<std::string> joined;
};

/// A step of one or more pieces.
struct PiecedStep {
  Graph graph;
  /// By piece: its first node, and how many pieces of the step it stands for.
  std::vector<NodeId> begins = {0};
  std::vector<int64_t> counts = {1};
  /// The origin (Node::origin) of what is made once, before the first piece, and stays; ""
  /// for nothing.
  std::string before = {};
  /// Where one piece is all there is, and the rest are the updates.
  std::optional<PieceLoop> loop = {};
};

/// Builds the step of so many pieces: all of them, one of each kind, or one for all
/// that a loop repeats. It may always build what comes before in this list.
enum class Sampling : uint8_t { kAll, kOneOfAKind, kOneForAll };
using StepBuilder =
    std::function<Result<PiecedStep>(int64_t pieces, Sampling sampling)>;

/// A graph as it is, as a step of one piece.
StepBuilder OfGraph(Graph graph);

}  // namespace stowage

namespace stowage::fit {

/// Whether every piece stands for itself alone.
bool IsWhole(const PiecedStep& step);

/// How many nodes of the whole step a node stands for.
int64_t CountOf(const PiecedStep& step, NodeId node);

/// Operations of the whole step.
double FlopsOf(const PiecedStep& step);

/// What `script` runs again in a piece of `sample`, run again in every piece of
/// `step` that is like it: whose nodes, views aside, have the same ops and types.
/// Error kInvalidArgument: a piece of `step` is like none, or the script mixes
/// pieces.
Result<Script> StretchScript(const PiecedStep& sample, const Script& script,
                             const PiecedStep& step);

/// The names of values of `graph` that `names` mean: a name, or what each of the
/// pieces calls it. A name that means nothing stays as it is.
std::vector<std::string> NamesInPieces(const Graph& graph,
                                       const std::vector<std::string>& names,
                                       int64_t pieces);

/// What runs again in many pieces, told once, by its name without the piece's.
std::vector<Remade> InAllPieces(std::vector<Remade> of_each);

// From one piece of a batch to the step of all: a loop whose body is the piece.
//
//   sample                                  step
//   part = slice(ids, 0, 0, 1)              view = reshape(ids, (64, 1, 1024))
//   ...                                     sums = loop 64 times (view sliced; params)
//   dw = matmul(...)                          ...
//   grad:w = add(sum:w, dw)                   dw = matmul(...)
//   w, m = update(w, m, grad:w)               grad:w = add(sum:w, dw)
//                                           w, m = update(w, m, grad:w)
//
// Levers do what they do to the sample, in which a piece is nodes like any others, and
// the loop is made last. The live bytes of the step at each time of its body are those
// of the sample: what adds up lies there from the start, as leaves of role saved.
//
//   Result<Graph> step = RepeatPiece(made.graph, *sample.loop, /*times=*/64);

/// `graph` with all its nodes but those of updates, and of the origin `before`, which are a
/// piece, in a loop that runs `times` times. A leaf of role saved is where something adds up: an `add` reads
/// it, and becomes a sum over all pieces. Values of the piece lose a "/1" at the end of
/// their names. Error kInvalidArgument: a saved leaf that is read otherwise, or an
/// update or output that reads what one piece alone made. Linear.
Result<Graph> RepeatPiece(const Graph& graph, const PieceLoop& loop,
                          int64_t times, std::string_view before = {});

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_PIECES_PIECES_H_
