#ifndef STOWAGE_GPU_KERNELS_COLUMN_SUMS_H_
#define STOWAGE_GPU_KERNELS_COLUMN_SUMS_H_

// Sums over rows for the gradients of a norm's params: a grid over the rows whose
// blocks each leave a sum for every column in the workspace, and a second grid,
// here, that adds those of all blocks in order.
//
//   const int64_t blocks = SumBlocks(rows);  // of the first grid
//   EnqueueColumnSums<T>("dgamma", partial, blocks, n, {dgamma}, queue);

#include <algorithm>
#include <cstdint>

#include "gpu/kernels/rows.h"
#include "gpu/queue.h"
#include "gpu/simt.h"

namespace stowage::gpu {

/// Blocks of the grid over rows: enough for the device, few enough that the sums
/// stay small beside the operands.
inline int64_t SumBlocks(int64_t rows) {
  constexpr int64_t kMost = 512;
  constexpr int64_t kRows = 8;  // of a block, at least
  return std::clamp((rows + kRows - 1) / kRows, int64_t{1}, kMost);
}

/// Sums of kSums params: `partial` is (blocks, kSums, n).
template <int kSums>
struct ColumnSumsParams {
  const float* partial;
  void* to[kSums];
  int64_t n;
  int64_t blocks;
};

namespace internal {

// 32 columns a block of the grid, whose y is which of the sums. Warps take turns
// at the blocks of the first grid.
template <typename T, int kSums>
STOWAGE_KERNEL(kRowThreads)
AddColumnSums(STOWAGE_PARAMS(ColumnSumsParams<kSums>) p) {
  STOWAGE_SHARED(float, of_warp, kRowThreads);
  const int64_t column = int64_t{BlockId()} * kWarpSize + Lane();
  const float* from = p.partial + BlockIdY() * p.n + column;
  float sum = 0;
  if (column < p.n) {
    STOWAGE_UNROLL_BY(16)  // so many loads are under way at once
    for (int64_t block = Warp(); block < p.blocks; block += kRowWarps) {
      sum += from[block * kSums * p.n];
    }
  }
  of_warp[ThreadId()] = sum;
  SyncThreads();
  if (Warp() != 0 || column >= p.n) return;
  for (int warp = 1; warp < kRowWarps; ++warp) {
    sum += of_warp[warp * kWarpSize + Lane()];
  }
  static_cast<T*>(p.to[BlockIdY()])[column] = FromFloat<T>(sum);
}

}  // namespace internal

/// Adds up the sums of all blocks into `params.to`, of T.
template <typename T, int kSums>
void EnqueueColumnSums(const char* name, const ColumnSumsParams<kSums>& params,
                       Queue& queue) {
  LaunchKernel(queue, name, internal::AddColumnSums<T, kSums>, params,
               {.x = BlocksFor(params.n, kWarpSize), .y = kSums}, kRowThreads);
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_COLUMN_SUMS_H_
