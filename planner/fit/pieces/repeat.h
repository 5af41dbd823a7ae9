#ifndef STOWAGE_PLANNER_FIT_PIECES_REPEAT_H_
#define STOWAGE_PLANNER_FIT_PIECES_REPEAT_H_

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

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/pieces/pieces.h"

namespace stowage::fit {

/// `graph` with all its nodes but those of updates, and of the origin `before`, which are a
/// piece, in a loop that runs `times` times. A leaf of role saved is where something adds up: an `add` reads
/// it, and becomes a sum over all pieces. Values of the piece lose a "/1" at the end of
/// their names. Error kInvalidArgument: a saved leaf that is read otherwise, or an
/// update or output that reads what one piece alone made. Linear.
Result<Graph> RepeatPiece(const Graph& graph, const PieceLoop& loop,
                          int64_t times, std::string_view before = {});

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_PIECES_REPEAT_H_
