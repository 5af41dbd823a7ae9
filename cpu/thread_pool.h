#ifndef STOWAGE_CPU_THREAD_POOL_H_
#define STOWAGE_CPU_THREAD_POOL_H_

// Provides ThreadPool, the threads on which kernels run. The calling thread is one of them, so a
// pool of one thread starts no thread.
//
// The result of a chunk of work must not depend on the thread that computes it. Results then do not
// depend on timing. Each thread is given a contiguous range of chunks, so that successive kernels
// find the same rows in the same core's cache. A thread that has finished its range steals chunks
// from other threads.
//
// Between calls the workers spin for tens of microseconds and then sleep. ParallelFor allocates
// nothing and takes no lock.
//
//   ThreadPool pool(4);
//   pool.ParallelFor(chunks, [&](int64_t chunk, int thread) { ... });

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace stowage::cpu {

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 256;

  /// `threads` includes the calling thread and is clamped to [1, kMaxThreads]. If the system starts
  /// fewer threads, the pool works with the threads that have started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Returns the number of threads that were requested, after clamping. The `thread` that
  /// ParallelFor passes is always smaller.
  int threads() const { return threads_; }
  /// Returns the number of running threads, including the caller.
  int started() const { return started_ + 1; }

  /// Calls f(chunk, thread) once for every chunk in [0, chunks), and returns when all calls have
  /// returned. `thread` is the number of the thread that runs f, in [0, threads()). Concurrent
  /// calls of f have different numbers, so `thread` can index scratch memory. Calls of ParallelFor
  /// must not be nested, and only one thread at a time may call it. f must not throw.
  template <typename F>
  void ParallelFor(int64_t chunks, F&& f) {
    if (threads_ == 1 || chunks <= 1) {
      for (int64_t chunk = 0; chunk < chunks; ++chunk) f(chunk, 0);
      return;
    }
    using Function = std::remove_reference_t<F>;
    Run(
        chunks,
        [](void* context, int64_t chunk, int thread) {
          (*static_cast<Function*>(context))(chunk, thread);
        },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  using ChunkFn = void (*)(void* context, int64_t chunk, int thread);

  // The chunks in a thread's range that no thread has claimed yet. The upper half is the next chunk
  // and the lower half is the end, so one atomic operation claims a chunk. job_ stays valid until
  // every claimed chunk is counted as done.
  struct alignas(64) Range {
    std::atomic<uint64_t> bounds{0};
  };
  struct Job {
    ChunkFn fn = nullptr;
    void* context = nullptr;
    int64_t first = 0;  // The chunk numbers in ranges are relative to this one.
  };
  struct Worker {
    ThreadPool* pool = nullptr;
    int index = 0;
    pthread_t thread{};
  };

  void Run(int64_t chunks, ChunkFn fn, void* context);
  void RunBatch(int64_t first, int64_t chunks, ChunkFn fn, void* context);
  void Work(int thread);
  bool Take(int range, int64_t* chunk);
  void WorkerLoop(int thread);

  int threads_;
  int started_ = 0;
  std::unique_ptr<Worker[]> workers_;
  std::unique_ptr<Range[]> ranges_;
  Job job_;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // Counts jobs.
  // The number of chunks that are not done yet.
  alignas(64) std::atomic<int64_t> pending_{0};
  alignas(64) std::atomic<int32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_THREAD_POOL_H_
