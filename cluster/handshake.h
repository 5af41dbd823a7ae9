#ifndef STOWAGE_CLUSTER_HANDSHAKE_H_
#define STOWAGE_CLUSTER_HANDSHAKE_H_

// What all ranks of a run must have in common, compared before the first step: ranks
// with another program, other options or other data would not fail, they would learn
// something else.
//
//   Status agreed = Agree(collectives, {{"program", version}, {"data", digest}});

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/rank_collectives.h"

namespace stowage::cluster {

/// What is compared, by name, and what it is here, for people.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Compares the facts of all ranks, each of which must call this. Error
/// kInvalidArgument, the same at all of them, naming the first rank that differs from
/// rank 0, what of it does, and what both have; kDevice when a rank was lost.
Status Agree(RankCollectives& collectives, const Facts& facts);

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_HANDSHAKE_H_
