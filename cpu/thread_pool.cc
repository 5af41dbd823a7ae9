#include "cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>

namespace stowage::cpu {
namespace {

// Some tens of microseconds: longer than the gaps between the kernels of a
// step, far shorter than anything a user would notice as a busy core.
constexpr int kSpins = 2000;

// One batch of chunks; more are run batch by batch.
constexpr int64_t kMaxBatch = int64_t{1} << 31;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr uint64_t Pack(uint64_t next, uint64_t end) {
  return (next << 32) | end;
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : threads_(std::clamp(threads, 1, kMaxThreads)),
      workers_(std::make_unique<Worker[]>(static_cast<size_t>(threads_))),
      ranges_(std::make_unique<Range[]>(static_cast<size_t>(threads_))) {
  for (int i = 1; i < threads_; ++i) {
    Worker& worker = workers_[static_cast<size_t>(i)];
    worker.pool = this;
    worker.index = i;
    const int refused = pthread_create(
        &worker.thread, nullptr,
        [](void* argument) -> void* {
          const Worker* self = static_cast<const Worker*>(argument);
          self->pool->WorkerLoop(self->index);
          return nullptr;
        },
        &worker);
    if (refused != 0) break;
    ++started_;
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (int i = 1; i <= started_; ++i) {
    pthread_join(workers_[static_cast<size_t>(i)].thread, nullptr);
  }
}

void ThreadPool::Run(int64_t chunks, ChunkFn fn, void* context) {
  for (int64_t first = 0; first < chunks; first += kMaxBatch) {
    RunBatch(first, std::min(kMaxBatch, chunks - first), fn, context);
  }
}

void ThreadPool::RunBatch(int64_t first, int64_t chunks, ChunkFn fn,
                          void* context) {
  job_ = {fn, context, first};
  pending_.store(chunks, std::memory_order_relaxed);
  // After the first of these stores, a worker that is still looking for chunks of the last job
  // may take chunks of this one; all data that it needs has been written.
  for (int i = 0; i < threads_; ++i) {
    const auto begin = static_cast<uint64_t>(chunks * i / threads_);
    const auto end = static_cast<uint64_t>(chunks * (i + 1) / threads_);
    ranges_[static_cast<size_t>(i)].bounds.store(Pack(begin, end),
                                                 std::memory_order_release);
  }
  // Either a worker going to sleep sees the new epoch, or we see the sleeper.
  epoch_.fetch_add(1);
  if (sleepers_.load() != 0) epoch_.notify_all();

  Work(0);
  for (int spins = 0; pending_.load(std::memory_order_acquire) != 0; ++spins) {
    // The last chunks are running elsewhere; if that takes long, their thread
    // may be waiting for our core.
    if (spins < kSpins) {
      Pause();
    } else {
      sched_yield();
    }
  }
}

bool ThreadPool::Take(int range, int64_t* chunk) {
  std::atomic<uint64_t>& bounds = ranges_[static_cast<size_t>(range)].bounds;
  uint64_t seen = bounds.load(std::memory_order_acquire);
  while ((seen >> 32) < (seen & 0xFFFFFFFF)) {
    if (bounds.compare_exchange_weak(seen, seen + Pack(1, 0),
                                     std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
      *chunk = static_cast<int64_t>(seen >> 32);
      return true;
    }
  }
  return false;
}

void ThreadPool::Work(int thread) {
  for (int i = 0; i < threads_; ++i) {
    const int range = (thread + i) % threads_;
    int64_t chunk;
    while (Take(range, &chunk)) {
      job_.fn(job_.context, job_.first + chunk, thread);
      pending_.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
}

void ThreadPool::WorkerLoop(int thread) {
  uint32_t seen = 0;
  while (true) {
    int spins = 0;
    while (epoch_.load(std::memory_order_acquire) == seen) {
      if (++spins < kSpins) {
        Pause();
        continue;
      }
      sleepers_.fetch_add(1);
      epoch_.wait(seen);
      sleepers_.fetch_sub(1);
    }
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    Work(thread);
  }
}

}  // namespace stowage::cpu
