#ifndef STOWAGE_CPU_THREAD_POOL_H_
#define STOWAGE_CPU_THREAD_POOL_H_

// The threads that kernels share. The caller is one of them: a pool of 1 starts none.
//
// A kernel divides its work into chunks by shape alone and computes each chunk in the same
// way on any thread, so results do not depend on the number of threads or on timing. Each
// thread is given a contiguous range of chunks, which keeps the same rows in the same core's
// cache from kernel to kernel; a thread that is done steals chunks from the others.
//
// Between calls the workers spin for some tens of microseconds and then sleep. ParallelFor
// allocates nothing and takes no lock.
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

  /// `threads`, including the caller, is clamped to [1, kMaxThreads]. If the system starts
  /// fewer, the pool works with those.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// The requested number of threads; thread numbers in ParallelFor are below it.
  int threads() const { return threads_; }
  /// The number of running threads, including the caller.
  int started() const { return started_ + 1; }

  /// Calls f(chunk, thread) once for every chunk in [0, chunks), and returns when all calls
  /// have returned. `thread` numbers the calling thread; no two concurrent calls have the
  /// same number, so it can index scratch. Calls must not be nested, and only one thread at
  /// a time may call.
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

  // The chunks of one thread that are not yet taken: the next in the upper half, the end in
  // the lower, so that one atomic operation takes a chunk. The job stays alive, and job_
  // readable, until every taken chunk is counted as done.
  struct alignas(64) Range {
    std::atomic<uint64_t> bounds{0};
  };
  struct Job {
    ChunkFn fn = nullptr;
    void* context = nullptr;
    int64_t first = 0;  // chunk numbers in ranges count from here
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
  alignas(64) std::atomic<uint32_t> epoch_{0};   // counts jobs
  alignas(64) std::atomic<int64_t> pending_{0};  // chunks not yet done
  alignas(64) std::atomic<int32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_THREAD_POOL_H_
