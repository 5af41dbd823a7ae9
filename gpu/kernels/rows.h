#ifndef STOWAGE_GPU_KERNELS_ROWS_H_
#define STOWAGE_GPU_KERNELS_ROWS_H_

// Provides device functions that process rows of contiguous elements: reductions over a warp or a
// block, and loads and stores. Also provides the sums over rows for the gradients of the params of
// norms.
//
//   STOWAGE_SHARED(float, scratch, kWarpSize);
//   const float total = BlockSum(mine, &scratch[0]);
//
// A sum is added in an order that depends only on the size of the block, so the same values produce
// the same bits. All threads of the warp or block must call a reduction, so none may have returned.
// All threads receive the result. Scratch may be reused immediately after the call.

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

/// Returns the sum over the 32 lanes of the warp.
template <typename T>
STOWAGE_DEVICE T WarpSum(T v) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) v += ShuffleXor(v, mask);
  return v;
}

/// Returns the larger number, or NaN if either is NaN.
template <typename T>
STOWAGE_DEVICE T Larger(T a, T b) {
  return a != a || a > b ? a : b;
}

/// Returns the maximum over the 32 lanes of the warp, or NaN if any value is NaN.
template <typename T>
STOWAGE_DEVICE T WarpMax(T v) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    v = Larger(v, ShuffleXor(v, mask));
  }
  return v;
}

/// Returns the sum over the block. `scratch` must have kWarpSize elements in shared memory.
template <typename T>
STOWAGE_DEVICE T BlockSum(T v, T* scratch) {
  v = WarpSum(v);
  if (Lane() == 0) scratch[Warp()] = v;
  SyncThreads();
  v = WarpSum(Lane() < BlockSize() / kWarpSize ? scratch[Lane()] : T(0));
  SyncThreads();
  return v;
}

/// Returns the maximum over the block, or NaN if any value is NaN. `scratch` is as in BlockSum.
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
// Rows are read in packs of 16 bytes. A pack is read with one load if rows are aligned to 16 bytes
// (kPacked), and otherwise element by element. A thread reads the same elements in both cases, so
// sums do not depend on the address of a row. For the same reason, kernels use fused multiply-adds
// (fmaf) explicitly, and contain no other expression that the compiler could fuse in the kernel for
// packed rows but not in the other, or vice versa.
//
//   const T* row = p.x + r * p.n;
//   for (int64_t i = Lane() * kPackSize<T>; i < p.n; i += 32 * kPackSize<T>) {
//     const Pack<T> x = LoadOfRow<kPacked>(row, i, p.n, T{});
//     ...
//   }

/// The number of threads in a block. A block processes one row, or one row per warp.
inline constexpr int kRowThreads = 256;
inline constexpr int kRowWarps = kRowThreads / kWarpSize;

/// The maximum number of elements in a row that one warp processes.
inline constexpr int64_t kMaxWarpRow = 1024;

/// The position of a thread of a block of kRowThreads threads: its row, its index among the threads
/// that process the row, and the number of these threads. Rows of up to kMaxWarpRow elements are
/// processed by a warp, and longer rows by a block.
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

/// Returns the grid for `rows` rows of n elements. The last block may have warps without a row.
inline Grid RowGrid(int64_t rows, int64_t n) {
  return {.x = BlocksFor(rows, n > kMaxWarpRow ? 1 : kRowWarps)};
}

/// Returns the kPackSize<T> elements of `row` that start at index `i`. Elements from index `n` on
/// are `fill`. kPacked requires that `row` is aligned to 16 bytes and that `i` is a multiple of
/// kPackSize<T>.
template <bool kPacked, typename T>
STOWAGE_DEVICE Pack<T> LoadOfRow(const T* row, int64_t i, int64_t n, T fill) {
  if (kPacked && i + kPackSize<T> <= n) return LoadPack(row + i);
  Pack<T> pack;
  for (int j = 0; j < kPackSize<T>; ++j) {
    pack.value[j] = i + j < n ? row[i + j] : fill;
  }
  return pack;
}

/// Returns the same as LoadOfRow, using fewer registers. kPacked also requires that the row
/// consists of whole packs (PacksAreWhole).
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

/// Stores the elements of a pack, starting at index `i` of `row`, except for elements from index
/// `n` on. kPacked is as in LoadOfRow.
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

/// Returns a b, rounded. The compiler cannot fuse the multiplication with an addition.
STOWAGE_DEVICE float RoundedProduct(float a, float b) {
  return fmaf(a, b, 0.0f);
}

/// Returns e^x, computed by Exp2. The relative error exceeds the error of Exp2 by up to 2^-24 |x|.
/// This is precise enough for terms of a sum.
STOWAGE_DEVICE float FastExp(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  return Exp2(x * kLog2E);
}

/// Returns whether the rows of all `operands` are aligned to 16 bytes. Each operand has `rows` rows
/// of T, which are `stride` elements apart.
template <typename T, typename... Operands>
bool RowsArePacked(int64_t rows, int64_t stride, const Operands*... operands) {
  return (IsPackAligned(operands) && ...) &&
         (rows == 1 || stride % kPackSize<T> == 0);
}

/// Returns whether the rows of all `operands` are aligned to 16 bytes and consist of whole packs.
/// Rows must have n elements and follow each other without gaps.
template <typename T, typename... Operands>
bool PacksAreWhole(int64_t n, const Operands*... operands) {
  return (IsPackAligned(operands) && ...) && n % kPackSize<T> == 0;
}

// --- Norms -------------------------------------------------------------------

/// The maximum number of elements in a row that a block holds in its registers.
inline constexpr int64_t kMaxBlockRow = 8192;
/// Block sizes in the gradient of a norm. kGradWarps is the number of warps in a block whose warps
/// process separate rows. kLongThreads is the number of threads in a block that processes rows
/// longer than kMaxBlockRow.
inline constexpr int kGradWarps = 4;
inline constexpr int kLongThreads = 512;

/// Returns the sum over the threads that process a row: a warp if kThreads is kWarpSize, and
/// otherwise the block. `scratch` must have kWarpSize elements in shared memory.
template <int kThreads, typename Scratch>
STOWAGE_DEVICE float SumOfRow(float v, Scratch& scratch) {
  if constexpr (kThreads == kWarpSize) {
    return WarpSum(v);
  } else {
    return BlockSum(v, &scratch[0]);
  }
}

/// Selects the kernel of a norm's gradient for rows of n elements. For rows of up to kMaxBlockRow
/// elements, calls `rows(row_threads, packs, threads)` with the number of threads per row and the
/// number of packs per thread, which are integral constants, and the number of threads per block.
/// Otherwise calls `long_rows()`. A thread processes up to 24 or 32 elements of a row if a warp
/// processes the row, and up to 8, 16 or 32 if a block does. It is always 32 for rows that are not
/// packed.
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
// Each block of a first kernel writes a sum of every column. A second kernel, which is defined
// here, adds the sums of all blocks in a fixed order. One launch of it can serve several norms. The
// bits of a sum do not depend on how many.
//
//   const int64_t blocks = SumBlocks(rows);  // blocks of the first kernel
//   const ColumnSum sums[] = {{partial, dgamma, n, blocks}};
//   EnqueueColumnSums<T, 2>("dgamma", sums, queue);

/// Returns the number of blocks of the first kernel. It is large enough to occupy the device, and
/// so small that the sums are small compared with the operands.
inline int64_t SumBlocks(int64_t rows) {
  constexpr int64_t kMax = 512;
  constexpr int64_t kRows = 8;  // minimum per block
  return std::clamp((rows + kRows - 1) / kRows, int64_t{1}, kMax);
}

/// The partial sums of the gradient of one param, and the address of the gradient.
struct ColumnSum {
  const float* partial;  // (blocks, n)
  void* to;              // n elements
  int64_t n;
  int64_t blocks;
};

/// The params of a kernel launch that adds up to kMax sums.
template <int kMax>
struct ColumnSumsParams {
  ColumnSum sums[kMax];
};

namespace internal {

// A block adds 32 columns of the sum with index BlockIdY(). Each warp adds the partial sums of some
// blocks of the first kernel, and then the warps' sums are added.
template <typename T, int kMax>
STOWAGE_KERNEL(kRowThreads)
AddColumnSums(STOWAGE_PARAMS(ColumnSumsParams<kMax>) p) {
  STOWAGE_SHARED(float, of_warp, kRowThreads);
  const ColumnSum& of = p.sums[BlockIdY()];
  const int64_t column = int64_t{BlockId()} * kWarpSize + Lane();
  const float* from = of.partial + column;
  float sum = 0;
  if (column < of.n) {
    STOWAGE_UNROLL_BY(16)  // number of loads in flight
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

/// Enqueues a kernel that adds the partial sums of each param, and stores them as elements of T.
/// There must be 1 to kMax `sums`. `name` must be a string literal.
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
