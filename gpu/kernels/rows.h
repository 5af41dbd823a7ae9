#ifndef STOWAGE_GPU_KERNELS_ROWS_H_
#define STOWAGE_GPU_KERNELS_ROWS_H_

// How kernels go through contiguous rows: 16 bytes at a time, by one load where
// rows start at multiples of 16 bytes (kPacked), element by element where they
// do not. A thread takes the same elements either way, so sums do not depend on
// where a row lies. For the same reason kernels say which products and sums are
// rounded together (fmaf), and leave no others that a compiler might join in one
// kernel and not in the other.
//
//   const T* row = p.x + r * p.n;
//   for (int64_t i = Lane() * kPackSize<T>; i < p.n; i += 32 * kPackSize<T>) {
//     const Pack<T> x = LoadOfRow<kPacked>(row, i, p.n, T{});
//     ...
//   }

#include <cmath>
#include <cstdint>

#include "gpu/kernels/dispatch.h"
#include "gpu/queue.h"
#include "gpu/simt.h"

namespace stowage::gpu {

/// Threads of a block that works on one row, or on as many rows as it has
/// warps.
inline constexpr int kRowThreads = 256;
inline constexpr int kRowWarps = kRowThreads / kWarpSize;

/// Elements up to which a row is a warp's.
inline constexpr int64_t kMaxWarpRow = 1024;

/// Where a thread of kRowThreads works: on which row, as which of how many. A row
/// of up to kMaxWarpRow elements is a warp's, a longer one a block's.
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

/// The grid for rows of n elements; the last block may have warps without one.
inline Grid RowGrid(int64_t rows, int64_t n) {
  return {.x = BlocksFor(rows, n > kMaxWarpRow ? 1 : kRowWarps)};
}

/// The elements of `row` from i on, kPackSize<T> of them; `fill` from n on.
template <bool kPacked, typename T>
STOWAGE_DEVICE Pack<T> LoadOfRow(const T* row, int64_t i, int64_t n, T fill) {
  if (kPacked && i + kPackSize<T> <= n) return LoadPack(row + i);
  Pack<T> pack;
  for (int j = 0; j < kPackSize<T>; ++j) {
    pack.value[j] = i + j < n ? row[i + j] : fill;
  }
  return pack;
}

/// The same where packed rows consist of whole packs (PacksAreWhole), in fewer
/// registers.
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

/// Puts a pack at i; what would lie from n on is left out.
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

/// a b, rounded before anything is added to it.
STOWAGE_DEVICE float RoundedProduct(float a, float b) {
  return fmaf(a, b, 0.0f);
}

/// e^x by the approximate Exp2. The relative error grows with |x| by 2^-24
/// each; what is far below 1 is as exact as weights that are summed need.
STOWAGE_DEVICE float FastExp(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  return Exp2(x * kLog2E);
}

/// Whether the rows, `stride` elements apart, of all `operands` start at
/// multiples of 16 bytes.
template <typename T, typename... Operands>
bool RowsArePacked(int64_t rows, int64_t stride, const Operands*... operands) {
  return (IsPackAligned(operands) && ...) &&
         (rows == 1 || stride % kPackSize<T> == 0);
}

/// Whether besides they consist of whole packs, `n` elements one after the
/// other.
template <typename T, typename... Operands>
bool PacksAreWhole(int64_t n, const Operands*... operands) {
  return (IsPackAligned(operands) && ...) && n % kPackSize<T> == 0;
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ROWS_H_
