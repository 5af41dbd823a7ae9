#ifndef STOWAGE_RUNTIME_CHECK_RANKS_H_
#define STOWAGE_RUNTIME_CHECK_RANKS_H_

// Whether a program may run on a backend that joins so many ranks.
//
//   STOWAGE_RETURN_IF_ERROR(
//       CheckRanks(program.graph(), {.ranks = 4, .room = "cpu", .given = "..."}));

#include <string_view>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

struct JoinedRanks {
  int ranks = 1;                // of the backend
  std::string_view room = {};   // that errors begin with
  std::string_view given = {};  // what a backend is given that joins several
};

/// That what `graph` does among ranks, in bodies too, it does among as many as are
/// joined. Error kInvalidArgument naming the node, and both numbers. Linear in the nodes.
Status CheckRanks(const Graph& graph, const JoinedRanks& joined);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_CHECK_RANKS_H_
