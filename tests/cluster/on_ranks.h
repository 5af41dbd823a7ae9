#ifndef STOWAGE_TESTS_CLUSTER_ON_RANKS_H_
#define STOWAGE_TESTS_CLUSTER_ON_RANKS_H_

// Runs ranks as threads of the test.
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

/// Runs `body` once for every rank, in a thread of its own, and waits for all. A rank that
/// throws, as REQUIRE does, is lost to the others; the first exception is thrown again here.
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
