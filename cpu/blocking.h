#ifndef STOWAGE_CPU_BLOCKING_H_
#define STOWAGE_CPU_BLOCKING_H_

// The blocking of a matmul: the width of its strips of columns, the rows of its tasks, and
// whether a contiguous strip of the second operand is packed; and the autotuner that
// measures which blocking is the fastest for a shape on this processor. A blocking never
// changes a bit of the result: every element is the same chain of multiply-adds.
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
  int strip = 0;          // registers of a strip of columns; 0: kStripVecs
  int64_t task_rows = 0;  // the most rows of a task; 0: RowsPerTask
  bool packs = true;      // packs strips of contiguous rows, too

  friend bool operator==(const Blocking&, const Blocking&) = default;
};

/// Determines a blocking: the size of an element, threads, sizes, strides.
inline constexpr size_t kBlockingKeyNumbers = 9;
using BlockingKey = std::array<int64_t, kBlockingKeyNumbers>;

/// A matmul, or a part of a large one, on its own memory.
struct BlockingTrial {
  BlockingKey key = {};
  std::vector<Blocking> candidates;  // at least two, the default first
  Bytes bytes = 0;                   // of memory, aligned to a cache line
  std::function<void(std::byte* memory, const Blocking&, ThreadPool&)> run;
};

/// The memory limit of a trial; shapes that need more use the default.
inline constexpr Bytes kMaxTrialBytes = Bytes{16} << 20;
/// The most multiply-adds of one run of a trial per thread: two thirds of a millisecond at
/// 50 per nanosecond and core.
inline constexpr int64_t kTrialWork = int64_t{1} << 25;
/// With fewer multiply-adds, noise exceeds the differences between candidates.
inline constexpr int64_t kMinTrialWork = int64_t{1} << 20;

/// Times the candidates of a shape when it is first bound, and keeps the fastest in a file
/// for one processor, one vector extension and one version of the loops
/// (runtime/autotune_cache.h). If the file cannot be read or written, shapes are timed for
/// this autotuner only.
class BlockingAutotuner {
 public:
  /// The seconds that a call of its argument takes.
  using Stopwatch = std::function<double(const std::function<void()>&)>;
  /// The stopwatch by the system's clock.
  static double Seconds(const std::function<void()>& run);

  /// Reads the file of `folder`, which need not exist, for kernels that use the vector
  /// extension `vectors` (KernelTable).
  static BlockingAutotuner Open(const std::string& folder,
                                std::string_view vectors,
                                Stopwatch stopwatch = Seconds);

  /// The blocking chosen earlier for the trial's key, or that of the file if it is among the
  /// candidates, or else the fastest candidate, which is then kept. Allocates and frees the
  /// trial's memory; if it cannot, returns the default. Takes some runs of the trial per
  /// candidate.
  Blocking Choose(const BlockingTrial& trial, ThreadPool& pool);

  /// Why choices are not kept, in one line; empty if they are.
  const std::string& note() const { return note_; }

 private:
  explicit BlockingAutotuner(Stopwatch stopwatch)
      : stopwatch_(std::move(stopwatch)) {}

  std::optional<Blocking> Kept(const BlockingTrial& trial) const;
  // None if there is no memory for the trial.
  std::optional<Blocking> Fastest(const BlockingTrial& trial,
                                  ThreadPool& pool) const;
  void Keep(const BlockingTrial& trial, const Blocking& blocking);

  std::optional<AutotuneCache> kept_;  // none if it cannot be read or written
  std::map<BlockingKey, Blocking> chosen_;
  std::string note_;
  Stopwatch stopwatch_;
};

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BLOCKING_H_
