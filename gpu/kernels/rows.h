#ifndef STOWAGE_GPU_KERNELS_ROWS_H_
#define STOWAGE_GPU_KERNELS_ROWS_H_

// Rows of contiguous elements: reductions over a warp or a block, how kernels read rows, and
// sums over rows for the gradients of a norm's params.
//
//   STOWAGE_SHARED(float, scratch, kWarpSize);
//   const float total = BlockSum(mine, &scratch[0]);
//
// Reductions add in an order that depends only on the size of the block: the same values give
// the same bits. All threads of the warp or block must call them, none of which has returned,
// and all get the result. Scratch may be reused at once.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/result.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/queue.h"
#include "gpu/simt.h"

namespace stowage::gpu {

/// The sum over the 32 lanes.
template <typename T>
STOWAGE_DEVICE T WarpSum(T v) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) v += ShuffleXor(v, mask);
  return v;
}

/// The larger; NaN if either is.
template <typename T>
STOWAGE_DEVICE T Larger(T a, T b) {
  return a != a || a > b ? a : b;
}

/// The largest over the 32 lanes; NaN if any is.
template <typename T>
STOWAGE_DEVICE T WarpMax(T v) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    v = Larger(v, ShuffleXor(v, mask));
  }
  return v;
}

/// The sum over the block. `scratch`: kWarpSize elements in shared memory.
template <typename T>
STOWAGE_DEVICE T BlockSum(T v, T* scratch) {
  v = WarpSum(v);
  if (Lane() == 0) scratch[Warp()] = v;
  SyncThreads();
  v = WarpSum(Lane() < BlockSize() / kWarpSize ? scratch[Lane()] : T(0));
  SyncThreads();
  return v;
}

/// The largest over the block; NaN if any is. `scratch` as above.
template <typename T>
STOWAGE_DEVICE T BlockMax(T v, T* scratch) {
  v = WarpMax(v);
  if (Lane() == 0) scratch[Warp()] = v;
  SyncThreads();
  // Lanes beyond the last warp repeat element 0, which does not change the maximum.
  v = WarpMax(scratch[Lane() < BlockSize() / kWarpSize ? Lane() : 0]);
  SyncThreads();
  return v;
}

// --- Reading rows ------------------------------------------------------------
//
// Rows are read 16 bytes at a time, by one load if they are aligned to 16 bytes (kPacked),
// else element by element. A thread takes the same elements either way, so sums do not depend
// on a row's address. For the same reason kernels state which multiplications and additions
// are fused (fmaf), and leave none that a compiler could fuse in one kernel and not in the
// other.
//
//   const T* row = p.x + r * p.n;
//   for (int64_t i = Lane() * kPackSize<T>; i < p.n; i += 32 * kPackSize<T>) {
//     const Pack<T> x = LoadOfRow<kPacked>(row, i, p.n, T{});
//     ...
//   }

/// Threads of a block that works on one row, or on as many rows as it has warps.
inline constexpr int kRowThreads = 256;
inline constexpr int kRowWarps = kRowThreads / kWarpSize;

/// The most elements of a row that one warp takes.
inline constexpr int64_t kMaxWarpRow = 1024;

/// The work of a thread of kRowThreads: its row, its number, and the number of threads on the
/// row. A row of up to kMaxWarpRow elements is a warp's, a longer one a block's.
struct RowPlace {
  explicit STOWAGE_DEVICE RowPlace(int64_t n)
      : of_block(n > kMaxWarpRow),
        row(of_block ? BlockId() : int64_t{BlockId()} * kRowWarps + Warp()),
        thread(of_block ? ThreadId() : Lane()),
        threads(of_block ? kRowThreads : kWarpSize) {}
  bool of_block;
  int64_t row;
  int thread, threads;
};

/// The grid for rows of n elements; the last block may have warps without a row.
inline Grid RowGrid(int64_t rows, int64_t n) {
  return {.x = BlocksFor(rows, n > kMaxWarpRow ? 1 : kRowWarps)};
}

/// kPackSize<T> elements of `row` from i on; `fill` from n on.
template <bool kPacked, typename T>
STOWAGE_DEVICE Pack<T> LoadOfRow(const T* row, int64_t i, int64_t n, T fill) {
  if (kPacked && i + kPackSize<T> <= n) return LoadPack(row + i);
  Pack<T> pack;
  for (int j = 0; j < kPackSize<T>; ++j) {
    pack.value[j] = i + j < n ? row[i + j] : fill;
  }
  return pack;
}

/// The same for packed rows of whole packs (PacksAreWhole), in fewer registers.
template <bool kPacked, typename T>
STOWAGE_DEVICE Pack<T> LoadOfWholeRow(const T* row, int64_t i, int64_t n,
                                      T fill) {
  if constexpr (kPacked) {
    if (i < n) return LoadPack(row + i);
    Pack<T> pack;
    for (int j = 0; j < kPackSize<T>; ++j) pack.value[j] = fill;
    return pack;
  } else {
    return LoadOfRow<false>(row, i, n, fill);
  }
}

/// Stores a pack at i, without its elements from n on.
template <bool kPacked, typename T>
STOWAGE_DEVICE void StoreOfRow(T* row, int64_t i, int64_t n,
                               const Pack<T>& pack) {
  if (kPacked && i + kPackSize<T> <= n) return StorePack(row + i, pack);
  for (int j = 0; j < kPackSize<T>; ++j) {
    if (i + j < n) row[i + j] = pack.value[j];
  }
}

template <bool kPacked, typename T>
STOWAGE_DEVICE void StoreOfWholeRow(T* row, int64_t i, int64_t n,
                                    const Pack<T>& pack) {
  if constexpr (kPacked) {
    if (i < n) StorePack(row + i, pack);
  } else {
    StoreOfRow<false>(row, i, n, pack);
  }
}

/// a b, rounded: not fused with an addition.
STOWAGE_DEVICE float RoundedProduct(float a, float b) {
  return fmaf(a, b, 0.0f);
}

/// e^x by the approximate Exp2, with a relative error that grows by 2^-24 |x|; precise enough
/// for weights that are summed.
STOWAGE_DEVICE float FastExp(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  return Exp2(x * kLog2E);
}

/// Whether the rows, `stride` elements apart, of all `operands` are aligned to 16 bytes.
template <typename T, typename... Operands>
bool RowsArePacked(int64_t rows, int64_t stride, const Operands*... operands) {
  return (IsPackAligned(operands) && ...) &&
         (rows == 1 || stride % kPackSize<T> == 0);
}

/// Whether the rows also consist of whole packs, and follow each other without gaps.
template <typename T, typename... Operands>
bool PacksAreWhole(int64_t n, const Operands*... operands) {
  return (IsPackAligned(operands) && ...) && n % kPackSize<T> == 0;
}

// --- Norms -------------------------------------------------------------------

/// The most elements of a row that stays in the registers of a block.
inline constexpr int64_t kMaxBlockRow = 8192;
/// Warps of a block whose warps have separate rows, in the gradient of a norm, and threads of
/// a block with rows longer than kMaxBlockRow.
inline constexpr int kGradWarps = 4;
inline constexpr int kLongThreads = 512;

/// The sum over the kThreads threads of a row. `scratch`: kWarpSize elements.
template <int kThreads, typename Scratch>
STOWAGE_DEVICE float SumOfRow(float v, Scratch& scratch) {
  if constexpr (kThreads == kWarpSize) {
    return WarpSum(v);
  } else {
    return BlockSum(v, &scratch[0]);
  }
}

/// Chooses the kernel of a norm's gradient for rows of n elements: rows(row_threads, packs,
/// threads), with constants for the threads of a row and the packs of each, and the threads of
/// a block; or long_rows() for rows longer than kMaxBlockRow. There are kernels for rows of up
/// to 8, 16, 24 and 32 elements per thread; unpacked rows use the last.
template <typename T, bool kPacked, typename RowsFn, typename LongFn>
void OnGradRows(int64_t n, const RowsFn& rows, const LongFn& long_rows) {
  constexpr int kEight = 8 / kPackSize<T>;
  const auto of_warps = [&](auto packs) {
    rows(std::integral_constant<int, kWarpSize>(), packs,
         kGradWarps * kWarpSize);
  };
  const auto of_blocks = [&](auto packs) {
    rows(std::integral_constant<int, kRowThreads>(), packs, kRowThreads);
  };
  if (n > kMaxBlockRow) return long_rows();
  if constexpr (kPacked) {
    if (n <= kMaxWarpRow / 4 * 3) {
      return of_warps(std::integral_constant<int, 3 * kEight>());
    }
    if (n > kMaxWarpRow && n <= kMaxBlockRow / 4) {
      return of_blocks(std::integral_constant<int, kEight>());
    }
    if (n > kMaxWarpRow && n <= kMaxBlockRow / 2) {
      return of_blocks(std::integral_constant<int, 2 * kEight>());
    }
  }
  if (n <= kMaxWarpRow) {
    of_warps(std::integral_constant<int, 4 * kEight>());
  } else {
    of_blocks(std::integral_constant<int, 4 * kEight>());
  }
}

// --- Sums over rows ----------------------------------------------------------
//
// The blocks of a first kernel each write a sum of every column, and a second one, here, adds
// those of all blocks in order, for one norm or for many with the same bits.
//
//   const int64_t blocks = SumBlocks(rows);  // of the first kernel
//   const ColumnSum sums[] = {{partial, dgamma, n, blocks}};
//   EnqueueColumnSums<T, 2>("dgamma", sums, queue);

/// Blocks of the first kernel: enough for the device, few enough that the sums stay small
/// compared to the operands.
inline int64_t SumBlocks(int64_t rows) {
  constexpr int64_t kMax = 512;
  constexpr int64_t kRows = 8;  // of a block, at least
  return std::clamp((rows + kRows - 1) / kRows, int64_t{1}, kMax);
}

/// The partial sums of one param's gradient, and its place.
struct ColumnSum {
  const float* partial;  // (blocks, n)
  void* to;              // n elements
  int64_t n;
  int64_t blocks;
};

/// The sums of one launch, at most kMax.
template <int kMax>
struct ColumnSumsParams {
  ColumnSum sums[kMax];
};

namespace internal {

// A block adds 32 columns of sum number BlockIdY(). Its warps take the blocks of the first
// kernel in turn.
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

/// Adds the sums of all blocks, of each param, into elements of T. Precondition: 1 to kMax
/// sums.
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

#endif  // STOWAGE_GPU_KERNELS_ROWS_H_
