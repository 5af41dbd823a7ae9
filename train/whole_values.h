#ifndef STOWAGE_TRAIN_WHOLE_VALUES_H_
#define STOWAGE_TRAIN_WHOLE_VALUES_H_

// Params and states whole, where the ranks of a step split them (Sharding): to load and
// to save them as one rank alone would, so that what N ranks saved goes on with M.
//
//   Result<WholeValues> whole =
//       WholeValues::Make(step_of_one_rank, backend, collectives);
//   if (Session* session = whole->session()) session->Initialize(seed);
//   Status given = whole->Scatter(step);  // every rank its blocks
//   ...
//   Status taken = whole->Gather(step);
//   if (Session* session = whole->session()) {
//     SaveCheckpoint(session->front(), file, done);
//   }
//
// On rank 0 they take memory beside the arena, as much as all params and states have
// bytes, while this is there; on the others as much as the largest.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "autodiff/ranks.h"
#include "base/result.h"
#include "ir/graph.h"
#include "runtime/backend.h"
#include "runtime/collectives.h"
#include "runtime/rank_values.h"
#include "runtime/session.h"

namespace stowage {

/// Gives a whole param or state, in bytes of its size.
using WholeSource =
    std::function<Status(const ValueInfo& leaf, std::span<std::byte> bytes)>;

/// Gives `step` of all ranks, each of which must call this, the params and states that
/// rank 0's `source` says: the whole, or a block of it. One at a time lies in memory
/// beside the arenas. Errors: those of the source and of Runner::WriteBytes; kDevice when
/// a rank was lost.
Status ScatterValues(const RankValues& values, Collectives& collectives,
                     const WholeSource& source, Runner& step);

class WholeValues {
 public:
  /// Those of a step that one rank would take. Backend and collectives must outlive
  /// this. Errors: those of Session::Create.
  static Result<WholeValues> Make(const Graph& step, Backend& backend,
                                  Collectives& collectives);

  /// On rank 0, over a program that has these params and states, and does nothing; null
  /// on the others.
  Session* session() { return session_.get(); }

  /// Gathers them from `step` of all ranks, each of which must call this. Errors: those
  /// of Runner::ReadBytes; kDevice when a rank was lost.
  Status Gather(const Runner& step);

  /// Gives `step` of all ranks what rank 0 has here: the whole, or a block of it. Each
  /// rank must call this. Errors as above.
  Status Scatter(Runner& step);

 private:
  WholeValues(Graph graph, Collectives& collectives)
      : graph_(std::move(graph)), collectives_(&collectives) {}

  RankValues Values() const {
    return {.whole = graph_,
            .rank = collectives_->rank(),
            .ranks = collectives_->ranks(),
            .own_name = &OwnName};
  }

  Graph graph_;
  Collectives* collectives_;
  std::unique_ptr<Session> session_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_WHOLE_VALUES_H_
