#ifndef STOWAGE_GPU_KERNELS_CONV_TILES_H_
#define STOWAGE_GPU_KERNELS_CONV_TILES_H_

// Multiplies tiles in shared memory, for the matmuls of convolutions. Uses FMAs for f32 and tensor
// cores for 16-bit types, and accumulates in f32.
//
// A block computes kRows x kColumns sums from two tiles at a time: `a` has kConvDepth numbers for
// each row, and `b` has kConvDepth numbers for each column. Each step of the loop over the depth
// (k) reads new tiles. Adjacent lanes load numbers that are adjacent in memory: adjacent depths
// with GatherByDepth, and adjacent columns with GatherByColumns. Both hold the loaded values in
// registers until Store, so that loads overlap a matmul:
//
//   GatherByDepth<T, kRows> gather;
//   gather.Load([&](int i, int e) { return ...; });
//   sums.AddHalf<0>(a, b);
//   sums.AddHalf<1>(a, b);
//   gather.Store(next_a);

#include <cstdint>

#include "gpu/kernels/fragments.h"
#include "gpu/simt.h"

namespace stowage::gpu {

inline constexpr int kConvThreads = 256;
inline constexpr int kConvWarps = kConvThreads / kWarpSize;
/// The number of steps whose source indices are held in tables in shared memory: kConvWarps steps
/// in use, and kConvWarps steps that are being computed.
inline constexpr int kConvTables = 2 * kConvWarps;

/// The number of resident blocks per multiprocessor. With the largest f32 tiles, a thread uses more
/// than 128 registers, so only one block can be resident.
template <typename T, int kRows>
inline constexpr int kConvBlocks = sizeof(T) == 4 && kRows == 128 ? 1 : 2;

/// The depth of a tile in shared memory, in elements.
template <typename T>
inline constexpr int kConvDepth = sizeof(T) == 2 ? 32 : 16;

/// The layout in shared memory of a tile with kRows rows, or columns.
template <typename T, int kRows>
struct ConvTile {
  static constexpr bool kTensor = sizeof(T) == 2;
  static constexpr int kPitch = kRows + 4;
  static constexpr int kElements =
      kTensor ? kRows * kConvDepth<T> : kPitch * kConvDepth<T>;

  static STOWAGE_DEVICE int At(int row, int depth) {
    if constexpr (kTensor) {
      return Swizzled<kConvDepth<T>>(row, depth / 8) + depth % 8;
    } else {
      return depth * kPitch + row;
    }
  }
};

// The functions below that return positions of a thread's values recompute them at each call
// (NotInAdvance), to keep registers free for the sums.

/// Fills a tile from a matrix whose rows are contiguous along the depth. A thread loads kPer
/// adjacent depths of kCount rows.
template <typename T, int kRows>
struct GatherByDepth {
  static constexpr int kPer = kConvDepth<T> / 16;
  static constexpr int kCount = kRows * 16 / kConvThreads;  // rows per thread
  static constexpr int kApart = kConvThreads / 16;

  static STOWAGE_DEVICE int FirstRow() { return NotInAdvance(ThreadId()) / 16; }
  static STOWAGE_DEVICE int FirstDepth() {
    return NotInAdvance(ThreadId()) % 16 * kPer;
  }

  /// Loads the values of this thread. `value(i, e)` must return the value of row `FirstRow() + i *
  /// kApart` at depth `FirstDepth() + e`.
  template <typename Fn>
  STOWAGE_DEVICE void Load(const Fn& value) {
    STOWAGE_UNROLL
    for (int i = 0; i < kCount; ++i) {
      STOWAGE_UNROLL
      for (int e = 0; e < kPer; ++e) held[i][e] = value(i, e);
    }
  }
  STOWAGE_DEVICE void Store(T* tile) const {
    using Tile = ConvTile<T, kRows>;
    T* to = tile + Tile::At(FirstRow(), FirstDepth());
    STOWAGE_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if constexpr (Tile::kTensor) {  // rows 16 apart have the same swizzle
        *reinterpret_cast<uint32_t*>(to + i * kApart * kConvDepth<T>) =
            uint32_t{held[i][0].bits} | uint32_t{held[i][1].bits} << 16;
      } else {
        to[i * kApart] = held[i][0];
      }
    }
  }

  T held[kCount][kPer];
};

/// Fills a tile from a matrix in which adjacent columns are adjacent in memory. A thread holds
/// kCount adjacent depths of one column, which the caller stores in `held`.
template <typename T, int kColumns>
struct GatherByColumns {
  static constexpr int kCount = kConvDepth<T> * kColumns / kConvThreads;

  static STOWAGE_DEVICE int Column() {
    return NotInAdvance(ThreadId()) % kColumns;
  }
  static STOWAGE_DEVICE int FirstDepth() {
    return NotInAdvance(ThreadId()) / kColumns * kCount;
  }

  STOWAGE_DEVICE void Store(T* tile) const {
    using Tile = ConvTile<T, kColumns>;
    const int column = Column();
    const int depth = FirstDepth();
    if constexpr (Tile::kTensor) {
      STOWAGE_UNROLL
      for (int chunk = 0; chunk < kCount / 8; ++chunk) {
        Pack<T> pack;
        STOWAGE_UNROLL
        for (int e = 0; e < 8; ++e) pack.value[e] = held[chunk * 8 + e];
        StorePack(tile + Tile::At(column, depth + chunk * 8), pack);
      }
    } else {
      STOWAGE_UNROLL
      for (int i = 0; i < kCount; ++i) {
        tile[Tile::At(column, depth + i)] = held[i];
      }
    }
  }

  T held[kCount];
};

/// The kRows x kColumns sums of a block. A thread holds the sums of kOwnRows rows and kPairs pairs
/// of adjacent columns. Row(i) and Column(pair) return the positions of its rows, and of the first
/// columns of its pairs.
template <typename T, int kRows, int kColumns>
struct ConvSums;

/// Computes the sums with FMAs. A warp computes the sums of kRows / 4 rows and kColumns / 2
/// columns. A thread computes blocks of four rows and four columns.
template <int kRows, int kColumns>
struct ConvSums<float, kRows, kColumns> {
  static constexpr int kOwnRows = kRows / 16;
  static constexpr int kOwnColumns = kColumns / 16;
  static constexpr int kPairs = kOwnColumns / 2;

  static STOWAGE_DEVICE int Row(int i) {
    return Warp() / 2 * (kRows / 4) + i / 4 * 16 + Lane() / 8 * 4 + i % 4;
  }
  static STOWAGE_DEVICE int Column(int pair) {
    return Warp() % 2 * (kColumns / 2) + pair / 2 * 32 + Lane() % 8 * 4 +
           pair % 2 * 2;
  }
  STOWAGE_DEVICE float Value(int i, int pair, int e) const {
    return at[i][pair * 2 + e];
  }

  STOWAGE_DEVICE void Clear() {
    STOWAGE_UNROLL
    for (int i = 0; i < kOwnRows; ++i) {
      STOWAGE_UNROLL
      for (int j = 0; j < kOwnColumns; ++j) at[i][j] = 0;
    }
  }

  template <int kHalf>
  STOWAGE_DEVICE void AddHalf(const float* a, const float* b) {
    constexpr int kDepth = kConvDepth<float>;
    const float* rows = a + Row(0);
    const float* columns = b + Column(0);
    STOWAGE_UNROLL
    for (int k = kHalf * kDepth / 2; k < (kHalf + 1) * kDepth / 2; ++k) {
      Pack<float> x[kOwnRows / 4];
      STOWAGE_UNROLL
      for (int i = 0; i < kOwnRows / 4; ++i) {
        x[i] = LoadPack(rows + k * ConvTile<float, kRows>::kPitch + i * 16);
      }
      Pack<float> y[kOwnColumns / 4];
      STOWAGE_UNROLL
      for (int j = 0; j < kOwnColumns / 4; ++j) {
        y[j] =
            LoadPack(columns + k * ConvTile<float, kColumns>::kPitch + j * 32);
      }
      STOWAGE_UNROLL
      for (int i = 0; i < kOwnRows; ++i) {
        STOWAGE_UNROLL
        for (int j = 0; j < kOwnColumns; ++j) {
          at[i][j] =
              fmaf(x[i / 4].value[i % 4], y[j / 4].value[j % 4], at[i][j]);
        }
      }
    }
  }

  float at[kOwnRows][kOwnColumns];
};

/// Computes the sums with tensor cores. A warp computes the sums of kRows / 2 rows and kColumns / 4
/// columns.
template <typename T, int kRows, int kColumns>
struct ConvSums {
  static constexpr int kM = kRows / 32;     // strips of 16 rows
  static constexpr int kN = kColumns / 32;  // strips of 8 columns
  static constexpr int kOwnRows = 2 * kM;
  static constexpr int kPairs = kN;

  static STOWAGE_DEVICE int WarpRow() { return Warp() / 4 * (kRows / 2); }
  static STOWAGE_DEVICE int WarpColumn() { return Warp() % 4 * (kColumns / 4); }

  static STOWAGE_DEVICE int Row(int i) {
    return WarpRow() + i * 8 + Lane() / 4;
  }
  static STOWAGE_DEVICE int Column(int pair) {
    return WarpColumn() + pair * 8 + Lane() % 4 * 2;
  }
  STOWAGE_DEVICE float Value(int i, int pair, int e) const {
    return at[i / 2][pair][i % 2 * 2 + e];
  }

  STOWAGE_DEVICE void Clear() {
    STOWAGE_UNROLL
    for (int i = 0; i < kM; ++i) {
      STOWAGE_UNROLL
      for (int n = 0; n < kN; ++n) {
        STOWAGE_UNROLL
        for (int e = 0; e < 4; ++e) at[i][n][e] = 0;
      }
    }
  }

  /// Adds the matmul of half kHalf (0 or 1) of the tiles' depth. The swizzled offset of a chunk is
  /// the exclusive or of a number that depends on the row and a number that depends on the chunk.
  template <int kHalf>
  STOWAGE_DEVICE void AddHalf(const T* a, const T* b) {
    constexpr int kDepth = kConvDepth<T>;
    constexpr int k = kHalf * 2;  // the first of two chunks
    const int lane = Lane();
    const int a_at = Swizzled<kDepth>(WarpRow() + lane % 16, lane / 16);
    const int b_at =
        Swizzled<kDepth>(WarpColumn() + lane / 16 * 8 + lane % 8, lane / 8 % 2);
    uint32_t x[kM][4];
    STOWAGE_UNROLL
    for (int i = 0; i < kM; ++i) {
      LoadMatrix4(x[i], a + (a_at ^ k * 8) + i * 16 * kDepth);
    }
    STOWAGE_UNROLL
    for (int n = 0; n < kN / 2; ++n) {
      uint32_t y[4];
      LoadMatrix4(y, b + (b_at ^ k * 8) + n * 16 * kDepth);
      STOWAGE_UNROLL
      for (int i = 0; i < kM; ++i) {
        MultiplyAdd<T>(at[i][2 * n], x[i], y);
        MultiplyAdd<T>(at[i][2 * n + 1], x[i], y + 2);
      }
    }
  }

  float at[kM][kN][4];
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_CONV_TILES_H_
