#ifndef STOWAGE_BASE_PARALLEL_H_
#define STOWAGE_BASE_PARALLEL_H_

// Work that falls into independent parts, on all of the machine's threads. Which
// thread does which part is not known; where parts share nothing, the result does
// not depend on it.
//
//   ForEachInParallel(variants.size(), [&](size_t k) { variants[k]->Search(); });

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace stowage {

/// How many parts are worked on at once: the machine's threads, at least 1.
inline size_t ParallelParts() {
  return std::max(1u, std::thread::hardware_concurrency());
}

/// Calls `work(k)` once for every k below `count`, and returns when all are done.
/// `work` must be safe to call from several threads, and throws nothing.
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
      break;  // no more threads are to be had: those that are there do the work
    }
  }
  take();
}

}  // namespace stowage

#endif  // STOWAGE_BASE_PARALLEL_H_
