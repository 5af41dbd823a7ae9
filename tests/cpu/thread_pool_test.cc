#include "cpu/thread_pool.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace stowage::cpu {
namespace {

TEST_CASE("every chunk runs once, on a thread below the count") {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (const int64_t chunks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(chunks));
      std::atomic<bool> good{true};
      pool.ParallelFor(chunks, [&](int64_t chunk, int thread) {
        if (chunk < 0 || chunk >= chunks || thread < 0 || thread >= threads) {
          good = false;
        } else {
          ++runs[static_cast<size_t>(chunk)];
        }
      });
      CHECK(good);
      for (const std::atomic<int>& count : runs) CHECK(count == 1);
    }
  }
}

TEST_CASE("calls follow each other at once, and after a rest") {
  ThreadPool pool(3);
  int64_t total = 0;
  for (int call = 0; call < 20000; ++call) {
    int64_t parts[5];
    pool.ParallelFor(5, [&](int64_t chunk, int) { parts[chunk] = call; });
    for (const int64_t part : parts) total += part;
    // Now and then, long enough for the workers to fall asleep.
    if (call % 5000 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  CHECK(total == int64_t{5} * 19999 * 20000 / 2);
}

TEST_CASE("a thread number belongs to one chunk at a time") {
  ThreadPool pool(4);
  std::atomic<int> busy[4] = {};
  std::atomic<bool> shared{false};
  for (int call = 0; call < 200; ++call) {
    pool.ParallelFor(64, [&](int64_t, int thread) {
      if (busy[thread].fetch_add(1) != 0) shared = true;
      std::this_thread::yield();
      busy[thread].fetch_sub(1);
    });
  }
  CHECK_FALSE(shared);
}

TEST_CASE("a late thread's chunks are taken over by the others") {
  ThreadPool pool(2);
  // Chunk 0 is the caller's and waits for all others, half of which were dealt
  // to the caller too: the worker must take them.
  std::atomic<int> done{0};
  pool.ParallelFor(8, [&](int64_t chunk, int) {
    if (chunk == 0) {
      while (done != 7) std::this_thread::yield();
    } else {
      ++done;
    }
  });
  CHECK(done == 7);
}

TEST_CASE("a count outside the bounds is moved to the nearest") {
  CHECK(ThreadPool(0).threads() == 1);
  CHECK(ThreadPool(-5).threads() == 1);
}

}  // namespace
}  // namespace stowage::cpu
