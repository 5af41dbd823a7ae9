#ifndef STOWAGE_TESTS_SUPPORT_THREAD_RANKS_H_
#define STOWAGE_TESTS_SUPPORT_THREAD_RANKS_H_

// Ranks that are threads of one process, joined in the plainest way: all meet, then each
// adds up its own block out of all the others' memory, and copies theirs.
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

  /// Bytes that rank 0 would send to others, so far: of a sum its part of the others'
  /// blocks, of a gather its own block to each of them.
  int64_t sent_bytes() const;

 private:
  class Rank;
  std::barrier<> meeting_;
  std::vector<std::span<std::byte>> values_;  // by rank, while they are met
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_THREAD_RANKS_H_
