#ifndef STOWAGE_TESTS_CLUSTER_ON_RANKS_H_
#define STOWAGE_TESTS_CLUSTER_ON_RANKS_H_

// Runs each rank of a test as a thread.
//
//   OnRanks(3, [&](Link& link) { RankCollectives collectives(link); ... });

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cluster/link.h"

namespace stowage::cluster {

/// Calls `body` for every rank, each in a separate thread, and waits until all calls have returned.
/// If a call throws, as a failed REQUIRE does, the link of its rank closes, so the rank is lost for
/// the other ranks. After all calls have returned, rethrows the exception of the lowest rank.
inline void OnRanks(int ranks, const std::function<void(Link&)>& body) {
  std::vector<std::unique_ptr<Link>> links = ThreadLinks(ranks);
  std::vector<std::exception_ptr> thrown(links.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < links.size(); ++i) {
    threads.emplace_back([&body, &link = links[i], &thrown = thrown[i]] {
      try {
        body(*link);
      } catch (...) {
        thrown = std::current_exception();
        link.reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& each : thrown) {
    if (each != nullptr) std::rethrow_exception(each);
  }
}

}  // namespace stowage::cluster

#endif  // STOWAGE_TESTS_CLUSTER_ON_RANKS_H_
