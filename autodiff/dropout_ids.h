#ifndef STOWAGE_AUTODIFF_DROPOUT_IDS_H_
#define STOWAGE_AUTODIFF_DROPOUT_IDS_H_

// The ids by which dropouts and random numbers draw, where a graph is copied several times
// into one: each copy's are above those of the one before, in bodies too.
//
//   copy.CopyNode(id, WithDropoutIdsFrom(node, first));
//   first += DropoutIds(graph);

#include <cstdint>

#include "ir/attrs.h"
#include "ir/graph.h"

namespace stowage {

/// One more than the largest id of a dropout, random_uniform or random_normal in `graph`.
int64_t DropoutIds(const Graph& graph);

/// The attributes of `node`, its ids higher by `first`.
Attrs WithDropoutIdsFrom(const Node& node, int64_t first);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_DROPOUT_IDS_H_
