#ifndef STOWAGE_CPU_BLOCKING_H_
#define STOWAGE_CPU_BLOCKING_H_

// Finds the fastest blocking of each matmul on this processor. A Blocking is the width of the
// strips of columns, the number of rows per task, and whether contiguous strips of the second
// operand are packed. The autotuner measures which blocking is the fastest for a shape. A
// blocking never changes a bit of the result, because each element is the same chain of
// multiply-adds.
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
  // If true, strips of contiguous rows are also packed.
  bool packs = true;

  friend bool operator==(const Blocking&, const Blocking&) = default;
};

/// The key that determines a blocking: the element size, the number of threads, sizes and
/// strides.
inline constexpr size_t kBlockingKeyNumbers = 9;
using BlockingKey = std::array<int64_t, kBlockingKeyNumbers>;

/// A matmul, or a smaller version of a large one, that runs on its own memory.
struct BlockingTrial {
  BlockingKey key = {};
  // At least two. The default comes first.
  std::vector<Blocking> candidates;
  // The memory size, aligned to a cache line.
  Bytes bytes = 0;
  std::function<void(std::byte* memory, const Blocking&, ThreadPool&)> run;
};

/// The memory limit of a trial. Shapes that need more use the default blocking.
inline constexpr Bytes kMaxTrialBytes = Bytes{16} << 20;
/// The maximum number of multiply-adds per thread in one run of a trial. At 50 per nanosecond
/// and core, they take two thirds of a millisecond.
inline constexpr int64_t kTrialWork = int64_t{1} << 25;
/// The minimum number of multiply-adds of a trial. Below it, noise exceeds the differences
/// between candidates.
inline constexpr int64_t kMinTrialWork = int64_t{1} << 20;

/// Times the candidates of a shape when the shape is first bound. The fastest is stored in a
/// file for one processor, one vector extension and one version of the loops
/// (runtime/autotune_cache.h). If the file cannot be read or written, results are kept only in
/// memory.
class BlockingAutotuner {
 public:
  /// Returns the time in seconds that a call of its argument takes.
  using Stopwatch = std::function<double(const std::function<void()>&)>;
  /// A Stopwatch that uses the system clock.
  static double Seconds(const std::function<void()>& run);

  /// Reads the file in `folder`, which need not exist. `vectors` is the vector extension that
  /// the kernels use (see KernelTable).
  static BlockingAutotuner Open(const std::string& folder,
                                std::string_view vectors,
                                Stopwatch stopwatch = Seconds);

  /// Returns the blocking for the trial's key. Uses the blocking chosen earlier, or the
  /// blocking in the file if it is among the candidates. Otherwise times the candidates and
  /// stores the fastest. Allocates and frees the trial's memory, and returns the default if the
  /// allocation fails. The timing takes a few runs of the trial per candidate.
  Blocking Choose(const BlockingTrial& trial, ThreadPool& pool);

  /// Returns a line that explains why results are not stored in the file, or an empty string if
  /// they are.
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
