#ifndef STOWAGE_BASE_PARALLEL_H_
#define STOWAGE_BASE_PARALLEL_H_

// Runs independent work items on all hardware threads. The assignment of items to threads is
// unspecified. It does not affect the results if items share no data.
//
//   ForEachInParallel(candidates.size(), [&](size_t k) { candidates[k]->Search(); });

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace stowage {

/// Returns the number of hardware threads, at least 1.
inline size_t ParallelParts() {
  return std::max(1u, std::thread::hardware_concurrency());
}

/// Calls `work(k)` once for each k in [0, count), and returns when all calls have returned.
/// `work` must be thread-safe and must not throw. If threads cannot be started, fewer are used.
template <typename Work>
void ForEachInParallel(size_t count, const Work& work) {
  std::atomic<size_t> next = 0;
  const auto take = [&] {
    for (size_t k = next++; k < count; k = next++) work(k);
  };
  std::vector<std::jthread> helpers;
  for (size_t k = 1; k < std::min(count, ParallelParts()); ++k) {
    try {
      helpers.emplace_back(take);
    } catch (const std::system_error&) {
      break;  // the threads that have started do the work
    }
  }
  take();
}

}  // namespace stowage

#endif  // STOWAGE_BASE_PARALLEL_H_
