#ifndef STOWAGE_TESTS_GPU_EXCHANGE_OVER_H_
#define STOWAGE_TESTS_GPU_EXCHANGE_OVER_H_

// What ranks' devices send one another, where these lie in the host's memory: over a link
// between threads.
//
//   REQUIRE(ExchangeOver(link, messages));

#include <span>
#include <vector>

#include "cluster/link.h"
#include "gpu/queue.h"

namespace stowage::testing {

/// Link::Exchange of all of it.
inline bool ExchangeOver(cluster::Link& link,
                         std::span<const gpu::PeerMessages> messages) {
  std::vector<cluster::Outgoing> outgoing;
  std::vector<cluster::Incoming> incoming;
  for (const gpu::PeerMessages& each : messages) {
    outgoing.push_back({each.peer, each.sent});
    incoming.push_back({each.peer, each.received});
  }
  return link.Exchange(outgoing, incoming);
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_EXCHANGE_OVER_H_
