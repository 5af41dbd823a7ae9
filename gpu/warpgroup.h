#ifndef STOWAGE_GPU_WARPGROUP_H_
#define STOWAGE_GPU_WARPGROUP_H_

// Device functions of compute capability 9.0, beside those of gpu/simt.h: matmuls of tiles
// in shared memory by the four warps of a warpgroup (wgmma of the PTX ISA), and bulk copies
// of boxes of an array to shared memory by the tensor memory accelerator
// (cp.async.bulk.tensor). Other devices lack them, so a file that includes this is compiled
// for that capability alone (:hopper_kernels in gpu/BUILD).
//
// Matmuls:
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
// A matmul is asynchronous from its call to the wait for its group: until then its registers
// must not be used, and its tiles must not be written.
//
// A panel is consecutive rows of kRowBytes, 64 or 128, whose 16-byte chunks are permuted by
// Swizzled (gpu/kernels/fragments.h), the ISA's swizzle of that many bytes; it begins at a
// multiple of 8 rows. A tile is a panel or, for rows longer than 128 bytes, several panels
// of equal size.
//
// Bulk copies: one thread starts a copy of a box, which the device carries out, with zeros
// outside the array and the permutation of chunks. A thread that needs the bytes waits for a
// barrier in shared memory. In each phase of a barrier one thread announces the bytes to
// come; the phase ends when they have arrived.
//
//   struct Params { TensorMap x; ... };         // Queue::Encode; by value
//   ...
//   if (ThreadId() == 0) {
//     InitBarrier(barrier);
//     ProxyFence();                             // copies see it from now on
//     ExpectBytes(barrier, 128 * 128);
//     CopyBox(tile, p.x, {0, head, row, batch}, barrier);
//   }
//   SyncThreads();                              // all threads see it from now on
//   AwaitBytes(barrier, 0);                     // the first phase; the next one is 1
//   ...                                         // the tile may be read
//
// Phases are numbered 0, 1, 0, 1 and so on, so no waiting thread may be two phases late: put
// a SyncThreads between the wait for a phase and the ExpectBytes of the next. Put one, too,
// between reads of a tile and the copy that overwrites it, preceded by a ProxyFence if the
// tile was written by other means.

#include <cstdint>

#include "gpu/simt.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu {

inline constexpr int kWarpgroupSize = 4 * kWarpSize;

/// The layout of the right factor b (16, n): element (k, column) is at column k of row
/// `column` of a tile, or at column `column` of row k.
enum class RightFactor { kRowsOfB, kColumnsOfB };
inline constexpr RightFactor kRowsOfB = RightFactor::kRowsOfB;
inline constexpr RightFactor kColumnsOfB = RightFactor::kColumnsOfB;

/// The place of a factor in shared memory: the matrix descriptor of the PTX ISA.
struct TileDescriptor {
  uint64_t bits;

  /// The same, `bytes` further on: a multiple of 16 bytes that is a multiple of eight rows
  /// or, if rows are the factor's, of columns.
  STOWAGE_DEVICE TileDescriptor Plus(int bytes) const {
    return {bits + static_cast<uint64_t>(bytes / 16)};
  }
};

/// Describes a panel at a byte of shared memory (SharedByte), or a tile of panels that are
/// `panel_bytes` apart.
template <int kRowBytes>
STOWAGE_DEVICE TileDescriptor DescribeTile(uint32_t at, int panel_bytes) {
  static_assert(kRowBytes == 64 || kRowBytes == 128);
  constexpr uint64_t kSwizzle = kRowBytes == 128 ? 1 : 2;
  constexpr uint64_t kEightRows = 8 * kRowBytes;
  return {(uint64_t{at} & 0x3FFFF) >> 4 |
          static_cast<uint64_t>(panel_bytes / 16) << 16 |
          kEightRows / 16 << 32 | kSwizzle << 62};
}

/// A barrier of bulk copies in shared memory; its contents are the device's.
struct CopyBarrier {
  uint64_t bits;
};

/// The first element of a box in an array of rank 4, the innermost dimension first. It may
/// be outside the array.
struct BoxStart {
  int at[4];
};

}  // namespace stowage::gpu

#if defined(__CUDACC__)
#include "gpu/warpgroup_cuda.h"  // IWYU pragma: export
#else
#include "gpu/emulator/warpgroup_emulated.h"  // IWYU pragma: export
#endif

// Both define, in namespace stowage::gpu:
//
//   int Warpgroup()               the number of this thread's warpgroup in the block
//   T* SwizzledShared<T>()        DynamicShared, aligned to 1,024 bytes
//   uint32_t SharedByte(const void* shared)
//                                 the number of that byte of shared memory
//   void ProxyFence()             matmuls and copies issued from now on, here or after a
//                                 SyncThreads, see what this thread has written to shared
//                                 memory, awaited copies included
//
// Called by all threads of a warpgroup; arrays are float[n][4] of sums or uint32_t[n][4] of
// left factors:
//
//   void WarpgroupFence(arrays...)
//                                 matmuls issued from now on may use the arrays
//   void WarpgroupMultiply<T, right>(float d[n][4], TileDescriptor a,
//                                    TileDescriptor b, bool add)
//   void WarpgroupMultiply<T, right>(float d[n][4], const uint32_t a[4],
//                                    TileDescriptor b, bool add)
//                                 d (64, 8 n) += a (64, 16) b (16, 8 n) of BF16 or F16;
//                                 d = a b if not `add`. A warp holds 16 rows of d, and of
//                                 a in registers, laid out as by mma.m16n8k16; a in shared
//                                 memory is rows of a tile. n is 4, 8 or 16
//   void WarpgroupCommit()        ends a group of matmuls, which may be empty
//   void WarpgroupWait<k>(arrays...)
//                                 waits until at most k groups are under way; their
//                                 matmuls use the arrays no more
//
// Called by one thread, or by every thread that waits:
//
//   void InitBarrier(CopyBarrier* barrier)
//   void ExpectBytes(CopyBarrier* barrier, int bytes)
//                                 announces the bytes of this phase, fewer than 2^20, of
//                                 copies that follow; each copy belongs to one phase
//   void CopyBox(void* shared, const TensorMap& map, BoxStart start,
//                CopyBarrier* barrier)
//                                 starts to copy a box, all of whose bytes count, also
//                                 those outside the array. `map` is among the kernel's
//                                 params and of rank 4; `shared` is aligned to 128 bytes,
//                                 or with a swizzle to 8 rows of the box
//   void AwaitBytes(CopyBarrier* barrier, int parity)
//                                 waits until the phase has ended; this thread and matmuls
//                                 that it issues then see what its copies wrote

#endif  // STOWAGE_GPU_WARPGROUP_H_
