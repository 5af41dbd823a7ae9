#ifndef STOWAGE_CLUSTER_THREAD_LINKS_H_
#define STOWAGE_CLUSTER_THREAD_LINKS_H_

// Links between threads of one process, a rank each: for tests, and for programs that
// run several ranks themselves.
//
//   std::vector<std::unique_ptr<Link>> links = ThreadLinks(4);
//   RankCollectives collectives(*links[rank]);  // in each thread

#include <memory>
#include <vector>

#include "cluster/link.h"

namespace stowage::cluster {

/// A link for each of `ranks` ranks; each is for one thread. Once one is destroyed,
/// its rank is lost: exchanges with it return false.
std::vector<std::unique_ptr<Link>> ThreadLinks(int ranks);

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_THREAD_LINKS_H_
