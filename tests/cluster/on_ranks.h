#ifndef STOWAGE_TESTS_CLUSTER_ON_RANKS_H_
#define STOWAGE_TESTS_CLUSTER_ON_RANKS_H_

// Ranks as threads of the test.
//
//   OnRanks(3, [&](Link& link) { RankCollectives collectives(link); ... });

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cluster/link.h"
#include "cluster/thread_links.h"

namespace stowage::cluster {

/// Runs `body` once for every rank, in a thread of its own, and waits for all.
inline void OnRanks(int ranks, const std::function<void(Link&)>& body) {
  const std::vector<std::unique_ptr<Link>> links = ThreadLinks(ranks);
  std::vector<std::thread> threads;
  for (const auto& link : links) {
    threads.emplace_back([&body, &link] { body(*link); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace stowage::cluster

#endif  // STOWAGE_TESTS_CLUSTER_ON_RANKS_H_
