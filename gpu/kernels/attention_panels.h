#ifndef STOWAGE_GPU_KERNELS_ATTENTION_PANELS_H_
#define STOWAGE_GPU_KERNELS_ATTENTION_PANELS_H_

// Loads the tiles of attention and multiplies them with warpgroups. gpu/warpgroup.h explains tiles,
// panels, bulk copies and barriers.
//
// A block consists of two warpgroups. A block's own tile has 64 rows of queries or keys for each
// warpgroup. It is the left operand of matmuls, in shared memory or in registers. The tiles of the
// other sequence, keys or queries, are the right operands for both warpgroups. Thread 0 starts the
// bulk copies that load the tiles. Threads wait for them at barriers, which follow the tiles in
// shared memory.
//
//   if (ThreadId() == 0) {
//     InitBarriers(barriers);
//     ExpectBytes(BarrierOf(barriers, 0), 2 * kRows * kDepth);
//     LoadPanels<kRows, kDepth>(tile, maps.k, batch, head, 0, BarrierOf(barriers, 0));
//   }
//   SyncThreads();
//   AwaitLoad(barriers, 0);

#include <cstdint>

#include "gpu/kernels/attention_tiles.h"
#include "gpu/kernels/fragments.h"
#include "gpu/simt.h"
#include "gpu/tensor_map.h"
#include "gpu/warpgroup.h"

namespace stowage::gpu {

inline constexpr int kPanelThreads = 2 * kWarpgroupSize;  // per block
inline constexpr int kOwnRows = 64;  // the queries or keys of a warpgroup
inline constexpr int kBlockRows = 2 * kOwnRows;

/// The panels of a tile whose rows have kDepth elements: the number of columns of a panel, the
/// number of panels, and the size of a panel's row in bytes.
template <int kDepth>
struct Panels {
  static constexpr int kWidth = kDepth < 64 ? kDepth : 64;
  static constexpr int kCount = kDepth / kWidth;
  static constexpr int kRowBytes = 2 * kWidth;
};

/// Starts to load rows [first, first + kRows) of a head to a tile. Must be called by one thread.
/// `arrival` is the barrier of the copies. Rows beyond the operand and elements beyond its depth
/// become zeros.
template <int kRows, int kDepth, typename T>
STOWAGE_DEVICE void LoadPanels(T* tile, const TensorMap& map, int batch,
                               int head, int first, CopyBarrier* arrival) {
  constexpr int kWidth = Panels<kDepth>::kWidth;
  STOWAGE_UNROLL
  for (int i = 0; i < Panels<kDepth>::kCount; ++i) {
    CopyBox(tile + i * kRows * kWidth, map, {{i * kWidth, head, first, batch}},
            arrival);
  }
}

/// Sets the rows of a tile from row `first` on to zero. All threads of the block must call this,
/// after they have waited for the load. A SyncThreads must precede the matmuls that read the tile.
/// This serves rows of keys that no query reads. Their weights are 0, but the rows may contain
/// non-finite elements.
template <int kRows, int kDepth, typename T>
STOWAGE_DEVICE void ClearRows(T* tile, int first) {
  constexpr int kWidth = Panels<kDepth>::kWidth;
  for (int at = first * kWidth + ThreadId() * 8; at < kRows * kWidth;
       at += kPanelThreads * 8) {
    STOWAGE_UNROLL
    for (int i = 0; i < Panels<kDepth>::kCount; ++i) {
      StorePack(tile + i * kRows * kWidth + at, Pack<T>{});
    }
  }
  ProxyFence();
}

/// The number of barriers that follow the tiles in shared memory. BarrierOf returns one of two
/// barriers, which the loads of the other sequence's tiles use alternately. OwnBarrier returns the
/// barrier for the block's own tiles.
inline constexpr int kBarriers = 3;
STOWAGE_DEVICE void InitBarriers(CopyBarrier* barriers) {
  STOWAGE_UNROLL
  for (int i = 0; i < kBarriers; ++i) InitBarrier(barriers + i);
  ProxyFence();
}
STOWAGE_DEVICE CopyBarrier* OwnBarrier(CopyBarrier* barriers) {
  return barriers + 2;
}
STOWAGE_DEVICE CopyBarrier* BarrierOf(CopyBarrier* barriers, int load) {
  return barriers + load % 2;
}
STOWAGE_DEVICE void AwaitLoad(CopyBarrier* barriers, int load) {
  AwaitBytes(BarrierOf(barriers, load), load / 2 % 2);
}

/// Writes this warp's strip of sums to global memory, as StoreStrip does
/// (gpu/kernels/attention_tiles.h).
template <int kRows, int kDepth, typename T>
STOWAGE_DEVICE void StorePanels(const float (&sum)[kDepth / 8][4],
                                const float (&factor)[2], T* tile, T* head,
                                int64_t row_stride, int first, int length,
                                int depth) {
  constexpr int kWidth = Panels<kDepth>::kWidth;
  const int strip_row = Warp() * 16;
  STOWAGE_UNROLL
  for (int i = 0; i < Panels<kDepth>::kCount; ++i) {
    StoreStrip<kWidth>(sum + i * kWidth / 8, factor, tile + i * kRows * kWidth,
                       strip_row, head + i * kWidth, row_stride,
                       first + strip_row, length, depth - i * kWidth);
  }
}

/// Loads the rows of this warp in the block's own tile to registers, as left operands of matmuls.
template <int kDepth, typename T>
STOWAGE_DEVICE void LoadOwnRows(uint32_t (&a)[kDepth / 16][4], const T* tile) {
  constexpr int kWidth = Panels<kDepth>::kWidth;
  STOWAGE_UNROLL
  for (int k = 0; k < kDepth / 16; ++k) {
    const int panel = k * 16 / kWidth;
    const int chunk = k * 2 % (kWidth / 8) + Lane() / 16;
    LoadMatrix4(a[k], tile + panel * kBlockRows * kWidth +
                          Swizzled<kWidth>(Warp() * 16 + Lane() % 16, chunk));
  }
}

/// Returns the offset in bytes of column 16 k in a tile of kRows rows.
template <int kRows, int kDepth>
STOWAGE_DEVICE constexpr int ColumnsAt(int k) {
  constexpr int kWidth = Panels<kDepth>::kWidth;
  return k * 16 / kWidth * kRows * 2 * kWidth + k * 32 % (2 * kWidth);
}

template <int kRows, int kDepth>
STOWAGE_DEVICE TileDescriptor Describe(uint32_t at) {
  return DescribeTile<Panels<kDepth>::kRowBytes>(
      at, kRows * Panels<kDepth>::kRowBytes);
}

/// Issues the matmul s = a b^T, where `a` has the own rows of this warpgroup, in registers or in
/// shared memory, and tile `b` has 8 n rows.
template <typename T, int kDepth, int n>
STOWAGE_DEVICE void Multiply(float (&s)[n][4],
                             const uint32_t (&a)[kDepth / 16][4],
                             TileDescriptor b) {
  STOWAGE_UNROLL
  for (int k = 0; k < kDepth / 16; ++k) {
    WarpgroupMultiply<T, kRowsOfB>(s, a[k], b.Plus(ColumnsAt<8 * n, kDepth>(k)),
                                   k > 0);
  }
}
template <typename T, int kDepth, int n>
STOWAGE_DEVICE void Multiply(float (&s)[n][4], TileDescriptor a,
                             TileDescriptor b) {
  STOWAGE_UNROLL
  for (int k = 0; k < kDepth / 16; ++k) {
    WarpgroupMultiply<T, kRowsOfB>(s, a.Plus(ColumnsAt<kBlockRows, kDepth>(k)),
                                   b.Plus(ColumnsAt<8 * n, kDepth>(k)), k > 0);
  }
}

/// Issues the matmul sum += weights b, where tile `b` has 16 n rows.
template <typename T, int kDepth, int n>
STOWAGE_DEVICE void AddProduct(float (&sum)[kDepth / 8][4],
                               const uint32_t (&weights)[n][4],
                               TileDescriptor b) {
  STOWAGE_UNROLL
  for (int k = 0; k < n; ++k) {
    WarpgroupMultiply<T, kColumnsOfB>(
        sum, weights[k], b.Plus(k * 16 * Panels<kDepth>::kRowBytes), true);
  }
}

/// Rounds sums to T, and packs them in `a` as left operands of the next matmul.
template <typename T, int n>
STOWAGE_DEVICE void PackSums(uint32_t (&a)[n][4],
                             const float (&sums)[2 * n][4]) {
  STOWAGE_UNROLL
  for (int k = 0; k < n; ++k) {
    STOWAGE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float* two = &sums[2 * k + i / 2][i % 2 * 2];
      a[k][i] = PackTwo<T>(two[0], two[1]);
    }
  }
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ATTENTION_PANELS_H_
