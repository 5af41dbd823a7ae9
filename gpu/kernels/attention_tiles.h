#ifndef STOWAGE_GPU_KERNELS_ATTENTION_TILES_H_
#define STOWAGE_GPU_KERNELS_ATTENTION_TILES_H_

// Tiles in shared memory and products of them by tensor cores, for attention.
//
// Tiles lie as gpu/kernels/fragments.h says. What lies beyond the sequence or beyond a
// row's real elements is zero.
//
// A block of kWarps warps works on tiles of 16 kM kWarps rows. Each warp has kM
// strips of 16 rows, a warp's strips lying kWarps strips apart: below a diagonal
// all warps then have about the same to do. A strip's results lie in registers as
// mma.m16n8k16 has them: float[4] for every 8 columns, of rows lane / 4 and
// lane / 4 + 8, columns 2 (lane % 4) and the next.

#include <cstdint>

#include "gpu/kernels/fragments.h"
#include "gpu/simt.h"

namespace stowage::gpu {

/// Starts to copy rows [first, first + kRows) of a head, `row_stride` apart, of
/// which those below `length` exist, with `depth` elements each.
template <int kRows, int kDepth, int kThreads, typename T>
STOWAGE_DEVICE void LoadTile(T* tile, const T* head, int64_t row_stride,
                             int first, int length, int depth, bool packed) {
  constexpr int kChunks = kDepth / 8;
  constexpr int kRowsAtOnce = kThreads / kChunks;
  static_assert(kRows % kRowsAtOnce == 0 && kRowsAtOnce % 8 == 0);
  // A thread has the same chunk of several rows, all turned alike.
  const int row = ThreadId() / kChunks;
  const int chunk = ThreadId() % kChunks;
  T* to = tile + Swizzled<kDepth>(row, chunk);
  const T* from = head + (first + row) * row_stride + chunk * 8;
  const int rows = chunk * 8 < depth ? length - first - row : 0;
  if (packed) {
    STOWAGE_UNROLL
    for (int i = 0; i < kRows; i += kRowsAtOnce) {
      const bool valid = i < rows;
      CopyAsyncZero16(to + i * kDepth, valid ? from : head, valid);
      from += kRowsAtOnce * row_stride;
    }
    return;
  }
  for (int i = 0; i < kRows; i += kRowsAtOnce) {
    Pack<T> pack;
    for (int e = 0; e < 8; ++e) {
      pack.value[e] = i < rows && chunk * 8 + e < depth ? from[e] : T{};
    }
    StorePack(to + i * kDepth, pack);
    from += kRowsAtOnce * row_stride;
  }
}

/// Strips of 16 rows: which of a warp's kM have something to do.
struct Strips {
  int begin, end;
  STOWAGE_DEVICE bool Has(int i) const { return i >= begin && i < end; }
};

/// Row of the tile where strip `i` of this warp begins.
template <int kWarps>
STOWAGE_DEVICE int StripRow(int i) {
  return (i * kWarps + Warp()) * 16;
}

/// c (16 kM rows, kColumns) = a b^T, of a tile of a's rows and one of kColumns
/// rows, which begin at these elements of shared memory.
///
/// The chunks of one row differ by an exclusive or of their numbers' bits, so a
/// lane's next address takes one instruction and no register that must be kept.
template <int kWarps, int kDepth, int kM, int kColumns, typename T>
STOWAGE_DEVICE void MultiplyTiles(float (&c)[kM][kColumns / 8][4],
                                  const T* shared, int a_tile, int b_tile,
                                  Strips strips) {
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    STOWAGE_UNROLL
    for (int n = 0; n < kColumns / 8; ++n) {
      STOWAGE_UNROLL
      for (int e = 0; e < 4; ++e) c[i][n][e] = 0;
    }
  }
  const int lane = Lane();
  const int a_at =
      a_tile + Swizzled<kDepth>(StripRow<kWarps>(0) + lane % 16, lane / 16);
  const int b_at =
      b_tile + Swizzled<kDepth>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  STOWAGE_UNROLL_BY(2)  // all at once would want more registers than there are
  for (int k = 0; k < kDepth / 16; ++k) {
    uint32_t a[kM][4];
    STOWAGE_UNROLL
    for (int i = 0; i < kM; ++i) {
      if (!strips.Has(i)) continue;
      LoadMatrix4(a[i], shared + (a_at ^ k * 16) + i * kWarps * 16 * kDepth);
    }
    STOWAGE_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      uint32_t b[4];
      LoadMatrix4(b, shared + (b_at ^ k * 16) + n * 16 * kDepth);
      STOWAGE_UNROLL
      for (int i = 0; i < kM; ++i) {
        if (!strips.Has(i)) continue;
        MultiplyAdd<T>(c[i][2 * n], a[i], b);
        MultiplyAdd<T>(c[i][2 * n + 1], a[i], b + 2);
      }
    }
  }
}

/// sum (16 kM rows, kDepth) += weights (16 kM rows, kInner), rounded to T, times
/// a tile of kInner rows.
template <int kDepth, int kM, int kInner, typename T>
STOWAGE_DEVICE void AddWeighted(float (&sum)[kM][kDepth / 8][4],
                                const float (&weights)[kM][kInner / 8][4],
                                const T* shared, int tile, Strips strips) {
  const int lane = Lane();
  const int at = tile + Swizzled<kDepth>(lane % 16, lane / 16);
  STOWAGE_UNROLL
  for (int k = 0; k < kInner / 16; ++k) {
    uint32_t a[kM][4];
    STOWAGE_UNROLL
    for (int i = 0; i < kM; ++i) {
      const auto& left = weights[i][2 * k];
      const auto& right = weights[i][2 * k + 1];
      a[i][0] = PackTwo<T>(left[0], left[1]);
      a[i][1] = PackTwo<T>(left[2], left[3]);
      a[i][2] = PackTwo<T>(right[0], right[1]);
      a[i][3] = PackTwo<T>(right[2], right[3]);
    }
    STOWAGE_UNROLL
    for (int n = 0; n < kDepth / 16; ++n) {
      uint32_t b[4];
      LoadMatrix4Transposed(b, shared + (at ^ n * 16) + k * 16 * kDepth);
      STOWAGE_UNROLL
      for (int i = 0; i < kM; ++i) {
        if (!strips.Has(i)) continue;
        MultiplyAdd<T>(sum[i][2 * n], a[i], b);
        MultiplyAdd<T>(sum[i][2 * n + 1], a[i], b + 2);
      }
    }
  }
}

/// Writes a strip's rows, kDepth / 8 times float[4], to global memory, rows lane / 4 times `factor[0]` and
/// the others times `factor[1]`. On the way it uses the strip's rows of a tile,
/// which no other warp may be using. `first` is the strip's first row of the
/// sequence, `head` row 0.
template <int kDepth, typename T>
STOWAGE_DEVICE void StoreStrip(const float (*sum)[4], const float (&factor)[2],
                               T* tile, int strip_row, T* head,
                               int64_t row_stride, int first, int length,
                               int depth) {
  constexpr int kChunks = kDepth / 8;
  const int lane = NotInAdvance(Lane());
  SyncWarp();  // what lay here has been read
  STOWAGE_UNROLL
  for (int n = 0; n < kChunks; ++n) {
    STOWAGE_UNROLL
    for (int half = 0; half < 2; ++half) {
      T* at = tile + Swizzled<kDepth>(strip_row + lane / 4 + half * 8, n) +
              lane % 4 * 2;
      *reinterpret_cast<uint32_t*>(at) = PackTwo<T>(
          sum[n][2 * half] * factor[half], sum[n][2 * half + 1] * factor[half]);
    }
  }
  SyncWarp();
  STOWAGE_UNROLL
  for (int i = 0; i < 16 * kChunks / kWarpSize; ++i) {
    const int row = (i * kWarpSize + lane) / kChunks;
    const int chunk = (i * kWarpSize + lane) % kChunks;
    if (first + row >= length || chunk * 8 >= depth) continue;
    T* to = head + (first + row) * row_stride + chunk * 8;
    const T* from = tile + Swizzled<kDepth>(strip_row + row, chunk);
    if (depth % 8 == 0) {
      StorePack(to, LoadPack(from));
    } else {
      for (int e = 0; e < 8 && chunk * 8 + e < depth; ++e) to[e] = from[e];
    }
  }
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ATTENTION_TILES_H_
