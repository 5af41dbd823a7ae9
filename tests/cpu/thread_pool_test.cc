#include "cpu/thread_pool.h"

#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "cpu/cpu_backend.h"

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

// No thread can be started while there is one: each would have a larger stack than there
// are addresses.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge = before_;
    pthread_attr_setstacksize(&huge, size_t{1} << 50);
    pthread_setattr_default_np(&huge);
  }
  ~NoMoreThreads() { pthread_setattr_default_np(&before_); }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t before_ = {};
};

TEST_CASE("a pool works with the threads that the system gives, and tells") {
  std::vector<std::string> notes;
  CpuOptions options{.threads = 3};
  options.note = [&notes](const std::string& note) { notes.push_back(note); };
  {
    const NoMoreThreads limit;
    ThreadPool pool(4);
    CHECK(pool.threads() == 4);
    CHECK(pool.started() == 1);
    std::atomic<int> done = 0;
    pool.ParallelFor(100, [&](int64_t, int) { ++done; });
    CHECK(done == 100);
    CHECK(MakeCpuBackend(options)->name() == "cpu");
  }
  CHECK(notes == std::vector<std::string>{
                     "[threads] the system gives this process 1 of 3 threads; "
                     "steps take longer, and have the same bits"});
  CHECK(ThreadPool(2).started() == 2);
  MakeCpuBackend(options);
  CHECK(notes.size() == 1);
}

}  // namespace
}  // namespace stowage::cpu
