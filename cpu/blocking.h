#ifndef STOWAGE_CPU_BLOCKING_H_
#define STOWAGE_CPU_BLOCKING_H_

// Finds the fastest blocking for each matmul on this processor. A Blocking states how a matmul is
// divided (cpu/kernels/gemm.h): the width of the strips of columns, the number of rows per task,
// and whether strips of the second operand are packed even if its rows are contiguous. A blocking
// never changes a bit of the result, because it does not change the order of the multiply-adds of
// an element.
//
//   BlockingAutotuner autotuner = BlockingAutotuner::Open(folder, "AVX2");
//   const Blocking blocking = autotuner.Choose(trial, pool);
//   if (!autotuner.note().empty()) std::cerr << autotuner.note() << '\n';
//   Product<T>(pool, m, n, k, a, b, c, /*accumulate=*/false, scratch, blocking);

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

struct Blocking {
  // The number of registers in a strip of columns. 0 means the default, kStripVecs.
  int strip = 0;
  // The maximum number of rows in a task. 0 means the default, RowsPerTask
  // (cpu/kernels/gemm.h).
  int64_t task_rows = 0;
  // If true, strips of an operand with contiguous rows are also packed. Strips of other operands
  // are always packed.
  bool packs = true;

  friend bool operator==(const Blocking&, const Blocking&) = default;
};

/// The key under which a blocking is stored: the element size, the number of threads, m, n, k, and
/// the row and column strides of both operands.
inline constexpr size_t kBlockingKeyNumbers = 9;
using BlockingKey = std::array<int64_t, kBlockingKeyNumbers>;

/// A matmul that is timed with several blockings. It replaces the matmul of a launch, is smaller if
/// that matmul is large, and runs on memory that is allocated for the trial.
struct BlockingTrial {
  BlockingKey key = {};
  // The blockings that are timed, at least two. The default comes first.
  std::vector<Blocking> candidates;
  // The size of the memory that `run` uses. The memory is aligned to a cache line.
  Bytes bytes = 0;
  std::function<void(std::byte* memory, const Blocking&, ThreadPool&)> run;
};

/// The memory limit of a trial. Matmuls whose trials need more use the default blocking.
inline constexpr Bytes kMaxTrialBytes = Bytes{16} << 20;
/// The maximum number of multiply-adds per thread in one run of a trial. At 50 per nanosecond
/// and core, they take two thirds of a millisecond.
inline constexpr int64_t kTrialWork = int64_t{1} << 25;
/// The minimum number of multiply-adds of a trial. Smaller matmuls use the default blocking,
/// because noise would exceed the differences between candidates.
inline constexpr int64_t kMinTrialWork = int64_t{1} << 20;

/// Times the candidates of a matmul when a launch with its key is bound for the first time. Stores
/// the fastest in a file (runtime/autotune_cache.h). Each file is for one processor model, one
/// vector extension and one version of the matmul loops. If the file cannot be read or written,
/// results are kept only in memory.
class BlockingAutotuner {
 public:
  /// A function that calls its argument and returns the time that the call takes, in seconds.
  using Stopwatch = std::function<double(const std::function<void()>&)>;
  /// Implements Stopwatch by the steady clock.
  static double Seconds(const std::function<void()>& run);

  /// Returns an autotuner that stores its results in a file in `folder`, and reads the file if it
  /// exists. `folder` is created when the first result is stored. `vectors` is the vector extension
  /// that the kernels use (KernelTable::vectors).
  static BlockingAutotuner Open(const std::string& folder,
                                std::string_view vectors,
                                Stopwatch stopwatch = Seconds);

  /// Returns the blocking for the trial's key: the blocking that this object chose earlier, or the
  /// blocking in the file if it is one of the candidates. Otherwise times the candidates, a few
  /// runs each, and stores the fastest. If the trial's memory cannot be allocated, returns the
  /// default and stores nothing. Requires at least two candidates.
  Blocking Choose(const BlockingTrial& trial, ThreadPool& pool);

  /// Returns a line that explains why results are not stored in the file, or an empty string if
  /// they are stored.
  const std::string& note() const { return note_; }

 private:
  explicit BlockingAutotuner(Stopwatch stopwatch)
      : stopwatch_(std::move(stopwatch)) {}

  std::optional<Blocking> Kept(const BlockingTrial& trial) const;
  // Returns nullopt if the trial's memory cannot be allocated.
  std::optional<Blocking> Fastest(const BlockingTrial& trial,
                                  ThreadPool& pool) const;
  void Keep(const BlockingTrial& trial, const Blocking& blocking);

  // Empty if the file cannot be read or written.
  std::optional<AutotuneCache> kept_;
  std::map<BlockingKey, Blocking> chosen_;
  std::string note_;
  Stopwatch stopwatch_;
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BLOCKING_H_
