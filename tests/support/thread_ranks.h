#ifndef STOWAGE_TESTS_SUPPORT_THREAD_RANKS_H_
#define STOWAGE_TESTS_SUPPORT_THREAD_RANKS_H_

// Implements collectives between threads of one process, for tests of several ranks. After a
// barrier, each rank sums its own block from the memory of all ranks, and copies the other blocks
// from their ranks.
//
//   ThreadRanks ranks(4);
//   ranks.Run([&](Collectives& rank) { ... });  // each rank on its own thread

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

  /// Calls `run` for each rank, each on its own thread, and waits until all calls have returned.
  void Run(const std::function<void(Collectives&)>& run);

  /// Returns the bytes that rank 0 would have sent so far over a network. A reduce-scatter sends
  /// each other rank its block, and an all-gather sends rank 0's block to each other rank. An
  /// all-reduce does both.
  int64_t sent_bytes() const;

 private:
  class Rank;
  std::barrier<> meeting_;
  std::vector<std::span<std::byte>> values_;  // per rank, during a collective
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_THREAD_RANKS_H_
