#ifndef STOWAGE_RUNTIME_COLLECTIVES_H_
#define STOWAGE_RUNTIME_COLLECTIVES_H_

// What the kernels of collective ops ask of whoever joins the ranks of a step: threads
// of one process, MPI, another network.
//
// Every rank makes the same calls in the same order. What is split among ranks is split
// into blocks of one size, one a rank, in order; the last ones are shorter, or empty,
// where that does not come out even.
//
//   if (!collectives.AllReduce(DType::kF32, gradient, scratch)) {
//     return StepCode::kRankLost;
//   }

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "ir/dtype.h"

namespace stowage {

/// Implementations allocate nothing once they are made. Calls come one at a time, from
/// threads that may differ. A call that returns false has lost a rank or its link: none
/// after it need do better. Scratch is as large as CollectiveScratch says, and aligned to
/// 64 bytes.
class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Sums over ranks, in place, in rank order: ((v0 + v1) + v2) + ..., each sum rounded
  /// to the type, so that every run has the same bits, and they are those of one rank
  /// that takes as many pieces one after the other. For floats, i32 and i64.
  virtual bool AllReduce(DType dtype, std::span<std::byte> values,
                         std::span<std::byte> scratch) noexcept = 0;

  /// The same sums, of which this rank gets its block alone, at the front of `block`,
  /// whose size is that of a whole one and at least that of the values over ranks. It is
  /// left as it was behind a shorter one.
  virtual bool ReduceScatter(DType dtype, std::span<const std::byte> values,
                             std::span<std::byte> block,
                             std::span<std::byte> scratch) noexcept = 0;

  /// `values` become what the ranks have in their blocks; `block.size()` bytes are a
  /// whole one, so that rank r's part of `values` begins at byte r * block.size(). The
  /// two do not overlap.
  virtual bool AllGather(std::span<const std::byte> block,
                         std::span<std::byte> values) noexcept = 0;
};

/// Scratch of AllReduce for `bytes` bytes of values, and of ReduceScatter for blocks that
/// have so many bytes together: a chunk of every other rank's, of a block or of 256 KiB
/// where that is less, each in whole lines of 64 bytes.
inline Bytes CollectiveScratch(Bytes bytes, int64_t ranks) {
  constexpr Bytes kMaxChunk = Bytes{256} << 10;
  const Bytes block = (bytes + ranks - 1) / ranks;
  const Bytes chunk = (std::min(block, kMaxChunk) + 63) / 64 * 64;
  return (ranks - 1) * chunk;
}

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_COLLECTIVES_H_
