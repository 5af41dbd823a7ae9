#ifndef STOWAGE_CPU_BLOCKING_H_
#define STOWAGE_CPU_BLOCKING_H_

// How a matrix product is cut: into strips of columns, tasks of rows, and whether a strip
// of the second operand is copied to where its rows follow each other. Every element is
// the same chain of multiply-adds however that is done, so no choice here shows in a bit;
// where the chain itself is cut, every so many of k, is no part of it.
//
// Which is the fastest depends on the processor and on the shape, and can be measured: a
// kernel that multiplies says by a BlockingTrial what to time.
//
//   Product<T>(pool, m, n, k, a, b, c, /*accumulate=*/false, scratch, {.packs = false});

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "cpu/thread_pool.h"
#include "runtime/autotune_cache.h"

namespace stowage::cpu {

/// What is left at its default is done as it is where nothing was measured.
struct Blocking {
  int strip = 0;          // registers of a strip of columns; 0: kStripVecs
  int64_t task_rows = 0;  // of a task, at most; 0: RowsPerTask
  bool packs = true;      // copies a strip of rows that lie contiguously, too

  friend bool operator==(const Blocking&, const Blocking&) = default;
};

/// What the choice of a blocking depends on: the size of an element, threads, sizes,
/// strides.
inline constexpr size_t kBlockingKeyNumbers = 9;
using BlockingKey = std::array<int64_t, kBlockingKeyNumbers>;

/// A product, or a part of one that is large, on memory of its own.
struct BlockingTrial {
  BlockingKey key = {};
  std::vector<Blocking> candidates;  // the default first, and one more at least
  Bytes bytes = 0;                   // of memory, aligned to a cache line
  std::function<void(std::byte* memory, const Blocking&, ThreadPool&)> run;
};

/// The most that a trial may take: what needs more keeps the default.
inline constexpr Bytes kMaxTrialBytes = Bytes{16} << 20;
/// Multiply-adds of one run of a trial, at most, for each thread: two thirds of a
/// millisecond where a core makes 50 of them in a nanosecond.
inline constexpr int64_t kTrialWork = int64_t{1} << 25;
/// With fewer, the differences are those of one run from the next.
inline constexpr int64_t kMinTrialWork = int64_t{1} << 20;

// Which blocking each product of a program has: the fastest of a trial's candidates, timed
// when a shape is bound for the first time, and then kept in a file of one processor, one
// vector extension and one version of our loops (runtime/autotune_cache.h), since it means
// nothing to others. Since no choice shows in a bit, a file that cannot be read or written
// is no reason to stop: shapes are timed for this autotuner alone then.
//
//   BlockingAutotuner autotuner = BlockingAutotuner::Open(folder, "AVX2");
//   const Blocking blocking = autotuner.Choose(trial, pool);
//   if (!autotuner.note().empty()) std::cerr << autotuner.note() << '\n';

class BlockingAutotuner {
 public:
  /// How long what it calls takes, in seconds.
  using Stopwatch = std::function<double(const std::function<void()>&)>;
  /// By the system's clock.
  static double Seconds(const std::function<void()>& run);

  /// Reads what is kept in `folder`, which need not be there, for kernels that compute by
  /// the vector extension `vectors` (KernelTable).
  static BlockingAutotuner Open(const std::string& folder,
                                std::string_view vectors,
                                Stopwatch stopwatch = Seconds);

  /// What was chosen for the trial's key, is kept for it, or is the fastest, which is kept
  /// then. A kept one that is no candidate, as of a program from before the candidates
  /// changed, counts as none. It allocates the trial's memory, and frees it; where there is
  /// none, the default is taken. Time: that of some runs of the trial for each candidate.
  Blocking Choose(const BlockingTrial& trial, ThreadPool& pool);

  /// Why choices are not kept, a line for people; empty: they are.
  const std::string& note() const { return note_; }

 private:
  explicit BlockingAutotuner(Stopwatch stopwatch)
      : stopwatch_(std::move(stopwatch)) {}

  std::optional<Blocking> Kept(const BlockingTrial& trial) const;
  // None where there is no memory for it.
  std::optional<Blocking> Fastest(const BlockingTrial& trial,
                                  ThreadPool& pool) const;
  void Keep(const BlockingTrial& trial, const Blocking& blocking);

  std::optional<AutotuneCache>
      kept_;  // none where it cannot be read or written
  std::map<BlockingKey, Blocking> chosen_;
  std::string note_;
  Stopwatch stopwatch_;
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BLOCKING_H_
