#ifndef STOWAGE_GPU_KERNELS_COLUMN_SUMS_H_
#define STOWAGE_GPU_KERNELS_COLUMN_SUMS_H_

// Sums over rows for the gradients of a norm's params: a grid over the rows whose
// blocks each leave a sum for every column, and a second grid, here, that adds those of
// all blocks in order: for one norm or for many, with the same bits.
//
//   const int64_t blocks = SumBlocks(rows);  // of the first grid
//   const ColumnSum sums[] = {{partial, dgamma, n, blocks}};
//   EnqueueColumnSums<T, 2>("dgamma", sums, queue);

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "gpu/kernels/rows.h"
#include "gpu/queue.h"
#include "gpu/simt.h"

namespace stowage::gpu {

/// Blocks of the grid over rows: enough for the device, few enough that the sums
/// stay small beside the operands.
inline int64_t SumBlocks(int64_t rows) {
  constexpr int64_t kMax = 512;
  constexpr int64_t kRows = 8;  // of a block, at least
  return std::clamp((rows + kRows - 1) / kRows, int64_t{1}, kMax);
}

/// What one param's gradient is the sum of, and where it goes.
struct ColumnSum {
  const float* partial;  // (blocks, n)
  void* to;              // n elements
  int64_t n;
  int64_t blocks;
};

/// As many as a grid adds up at most.
template <int kMax>
struct ColumnSumsParams {
  ColumnSum sums[kMax];
};

namespace internal {

// 32 columns a block of the grid, whose y is which of the sums. Warps take turns
// at the blocks of the first grid.
template <typename T, int kMax>
STOWAGE_KERNEL(kRowThreads)
AddColumnSums(STOWAGE_PARAMS(ColumnSumsParams<kMax>) p) {
  STOWAGE_SHARED(float, of_warp, kRowThreads);
  const ColumnSum& of = p.sums[BlockIdY()];
  const int64_t column = int64_t{BlockId()} * kWarpSize + Lane();
  const float* from = of.partial + column;
  float sum = 0;
  if (column < of.n) {
    STOWAGE_UNROLL_BY(16)  // so many loads are under way at once
    for (int64_t block = Warp(); block < of.blocks; block += kRowWarps) {
      sum += from[block * of.n];
    }
  }
  of_warp[ThreadId()] = sum;
  SyncThreads();
  if (Warp() != 0 || column >= of.n) return;
  for (int warp = 1; warp < kRowWarps; ++warp) {
    sum += of_warp[warp * kWarpSize + Lane()];
  }
  static_cast<T*>(of.to)[column] = FromFloat<T>(sum);
}

}  // namespace internal

/// Adds up the sums of all blocks, of each param, into elements of T. At most kMax, and
/// at least one.
template <typename T, int kMax>
void EnqueueColumnSums(const char* name, std::span<const ColumnSum> sums,
                       Queue& queue) {
  STOWAGE_CHECK(!sums.empty() && sums.size() <= size_t{kMax});
  ColumnSumsParams<kMax> params = {};
  std::ranges::copy(sums, params.sums);
  const int64_t widest = std::ranges::max_element(sums, {}, &ColumnSum::n)->n;
  LaunchKernel(queue, name, internal::AddColumnSums<T, kMax>, params,
               {.x = BlocksFor(widest, kWarpSize),
                .y = static_cast<uint32_t>(sums.size())},
               kRowThreads);
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_COLUMN_SUMS_H_
