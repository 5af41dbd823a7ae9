#ifndef STOWAGE_GPU_WARPGROUP_H_
#define STOWAGE_GPU_WARPGROUP_H_

// More words for kernels, beside those of gpu/simt.h: products that the four warps of a
// warpgroup compute together, of tiles that lie in shared memory. They are wgmma of the
// PTX ISA; devices of compute capability 9.0 have them and no others, so a file that
// includes this is compiled for those alone (:hopper in gpu/kernels/BUILD).
//
//   // s (64, 32) = a b^T, of two tiles of 64 elements a row.
//   float s[4][4];
//   WarpgroupFence(s);
//   for (int k = 0; k < 4; ++k) {
//     WarpgroupMultiply<BF16, kRowsOfB>(s, a.Plus(32 * k), b.Plus(32 * k), k > 0);
//   }
//   WarpgroupCommit();
//   ...                     // other work, which must not touch s
//   WarpgroupWait<0>(s);    // now it may
//
// A product runs on its own, from the call to the wait for its group. In between nobody
// may touch its registers or write what it reads.
//
// A panel is rows of kRowBytes, 64 or 128, one behind the other, the 16-byte chunks of
// each row exchanged as Swizzled (gpu/kernels/fragments.h) says, which is what the
// ISA calls a swizzle of so many bytes; it begins at a multiple of 8 rows. A tile is a
// panel, or, where its rows are longer than 128 bytes, several of equal size.

#include <cstdint>

#include "gpu/simt.h"

namespace stowage::gpu {

inline constexpr int kWarpgroupSize = 4 * kWarpSize;

/// How a product's right factor b (16, n) lies: element (k, column) is at column k of
/// row `column` of a tile, or at column `column` of row k.
enum class RightFactor { kRowsOfB, kColumnsOfB };
inline constexpr RightFactor kRowsOfB = RightFactor::kRowsOfB;
inline constexpr RightFactor kColumnsOfB = RightFactor::kColumnsOfB;

/// Says where a product finds a factor in shared memory: the matrix descriptor of the
/// PTX ISA.
struct TileDescriptor {
  uint64_t bits;

  /// The same from so many bytes on, a multiple of 16: of a whole number of eight rows,
  /// or, where rows are the factor's, of columns.
  STOWAGE_DEVICE TileDescriptor Plus(int bytes) const {
    return {bits + static_cast<uint64_t>(bytes / 16)};
  }
};

/// Of a panel at a byte of shared memory (SharedByte), or a tile of panels so many bytes
/// apart.
template <int kRowBytes>
STOWAGE_DEVICE TileDescriptor DescribeTile(uint32_t at, int panel_bytes) {
  static_assert(kRowBytes == 64 || kRowBytes == 128);
  constexpr uint64_t kSwizzle = kRowBytes == 128 ? 1 : 2;
  constexpr uint64_t kEightRows = 8 * kRowBytes;
  return {(uint64_t{at} & 0x3FFFF) >> 4 |
          static_cast<uint64_t>(panel_bytes / 16) << 16 |
          kEightRows / 16 << 32 | kSwizzle << 62};
}

}  // namespace stowage::gpu

#if defined(__CUDACC__)
#include "gpu/warpgroup_cuda.h"  // IWYU pragma: export
#else
#include "gpu/emulator/warpgroup_emulated.h"  // IWYU pragma: export
#endif

// Both define, in namespace stowage::gpu:
//
//   int Warpgroup()               of the block
//   T* SwizzledShared<T>()        as DynamicShared, at a multiple of 1,024 bytes
//   uint32_t SharedByte(const void* shared)
//                                 the number of that byte of shared memory
//
//   void ProxyFence()             products that are issued from now on, here or behind
//                                 a SyncThreads, see what this thread has written to
//                                 shared memory, copies that it waited for included
//
// The following are called by all threads of a warpgroup. Arrays are float[n][4] of sums
// or uint32_t[n][4] of left factors.
//
//   void WarpgroupFence(arrays...)
//                                 products that are issued from now on may use these
//   void WarpgroupMultiply<T, right>(float d[n][4], TileDescriptor a,
//                                    TileDescriptor b, bool add)
//   void WarpgroupMultiply<T, right>(float d[n][4], const uint32_t a[4],
//                                    TileDescriptor b, bool add)
//                                 d (64, 8 n) += a (64, 16) b (16, 8 n), of BF16 or
//                                 F16; d = a b where `add` is false. Of d and of a in
//                                 registers a warp has 16 rows, which lie as
//                                 mma.m16n8k16 has them; a in shared memory is rows of a
//                                 tile. n is 4, 8 or 16
//   void WarpgroupCommit()        ends a group of products, which may be empty
//   void WarpgroupWait<k>(arrays...)
//                                 until at most k groups are under way; products use
//                                 these arrays no more
#endif  // STOWAGE_GPU_WARPGROUP_H_
