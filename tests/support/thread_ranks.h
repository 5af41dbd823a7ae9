#ifndef STOWAGE_TESTS_SUPPORT_THREAD_RANKS_H_
#define STOWAGE_TESTS_SUPPORT_THREAD_RANKS_H_

// Ranks that are threads of one process: after a barrier each rank sums its block from the
// memory of all others, and copies their blocks.
//
//   ThreadRanks ranks(4);
//   ranks.Run([&](Collectives& rank) { ... });  // on a thread for each

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/backend.h"

namespace stowage::testing {

class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks);
  ~ThreadRanks();

  /// Calls `run` on a thread for each rank, and waits for all.
  void Run(const std::function<void(Collectives&)>& run);

  /// Bytes that rank 0 would have sent so far: for a sum its part of each other block, for a
  /// gather its own block to each other rank.
  int64_t sent_bytes() const;

 private:
  class Rank;
  std::barrier<> meeting_;
  std::vector<std::span<std::byte>> values_;  // by rank, while they are met
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_THREAD_RANKS_H_
