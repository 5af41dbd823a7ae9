#ifndef STOWAGE_GPU_WARPGROUP_H_
#define STOWAGE_GPU_WARPGROUP_H_

// Declares the device functions of compute capability 9.0, in addition to gpu/simt.h. The four
// warps of a warpgroup multiply tiles in shared memory (wgmma of the PTX ISA). The tensor memory
// accelerator copies boxes of an array to shared memory (cp.async.bulk.tensor). Other devices lack
// these instructions, so a file that includes this header is compiled for that capability only
// (:hopper_kernels in gpu/BUILD).
//
// Matmuls:
//
//   // s (64, 32) = a b^T, of two tiles with 64 elements per row.
//   float s[4][4];
//   WarpgroupFence(s);
//   for (int k = 0; k < 4; ++k) {
//     WarpgroupMultiply<BF16, kRowsOfB>(s, a.Plus(32 * k), b.Plus(32 * k), k > 0);
//   }
//   WarpgroupCommit();
//   ...                     // other work, which must not use s
//   WarpgroupWait<0>(s);    // s may be used after this
//
// A matmul is asynchronous from its call until the wait for its group. In between, its registers
// must not be used, and its tiles must not be written.
//
// A panel is a sequence of rows of kRowBytes, 64 or 128. Its 16-byte chunks are permuted by
// Swizzled (gpu/kernels/fragments.h), which is the swizzle of the ISA for kRowBytes. It begins at a
// multiple of 8 rows. A tile is one panel. If rows are longer than 128 bytes, a tile consists of
// several panels of equal size.
//
// Bulk copies: one thread starts the copy of a box. The device performs the copy, writes zeros
// for elements outside the array, and permutes the chunks. A thread that reads the bytes must wait
// for a barrier in shared memory. In each phase of a barrier, one thread announces the number of
// bytes, and the phase ends when they have arrived.
//
//   struct Params { TensorMap x; ... };         // from Queue::Encode, passed by value
//   ...
//   if (ThreadId() == 0) {
//     InitBarrier(barrier);
//     ProxyFence();                             // makes the barrier visible to copies
//     ExpectBytes(barrier, 128 * 128);
//     CopyBox(tile, p.x, {0, head, row, batch}, barrier);
//   }
//   SyncThreads();                              // makes the barrier visible to all threads
//   AwaitBytes(barrier, 0);                     // the first phase, whose parity is 0
//   ...                                         // the tile may be read
//
// A phase is identified by its parity, which alternates between 0 and 1. A waiting thread must
// therefore never be two phases late. A SyncThreads must separate the wait for a phase from the
// ExpectBytes of the next phase. A SyncThreads must also separate the reads of a tile from the copy
// that overwrites it. If the tile was written by other instructions, a ProxyFence must precede
// that SyncThreads.

#include <cstdint>

#include "gpu/simt.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu {

inline constexpr int kWarpgroupSize = 4 * kWarpSize;

/// The layout of the right operand b (16, n). With kRowsOfB, element (k, column) is at column `k`
/// of row `column` of a tile. With kColumnsOfB, it is at column `column` of row `k`.
enum class RightFactor { kRowsOfB, kColumnsOfB };
inline constexpr RightFactor kRowsOfB = RightFactor::kRowsOfB;
inline constexpr RightFactor kColumnsOfB = RightFactor::kColumnsOfB;

/// The location of a matmul operand in shared memory, as the matrix descriptor of the PTX ISA.
struct TileDescriptor {
  uint64_t bits;

  /// Returns the descriptor advanced by `bytes`, which must be a multiple of eight rows. If
  /// dimension k runs along the rows of the tile, it may also be a multiple of 16 within a row.
  STOWAGE_DEVICE TileDescriptor Plus(int bytes) const {
    return {bits + static_cast<uint64_t>(bytes / 16)};
  }
};

/// Describes a panel at a byte offset in shared memory (SharedByte), or a tile of panels that are
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

/// A barrier of bulk copies in shared memory. Its contents are defined by the device.
struct CopyBarrier {
  uint64_t bits;
};

/// The first element of a box in an array of rank 4, innermost dimension first. It may be outside
/// the array.
struct BoxStart {
  int at[4];
};

}  // namespace stowage::gpu

#if defined(__CUDACC__)
#include "gpu/warpgroup_cuda.h"  // IWYU pragma: export
#else
#include "gpu/emulator/warpgroup_emulated.h"  // IWYU pragma: export
#endif

// Both headers define, in namespace stowage::gpu:
//
//   int Warpgroup()               Returns the index of this thread's warpgroup in the block.
//   T* SwizzledShared<T>()        Returns DynamicShared, aligned to 1,024 bytes.
//   uint32_t SharedByte(const void* shared)
//                                 Returns the offset of that byte in shared memory.
//   void ProxyFence()             Makes this thread's writes to shared memory, including awaited
//                                 copies, visible to matmuls and copies that are issued later by
//                                 this thread, or by any thread after a SyncThreads.
//
// All threads of a warpgroup must call these functions together. Arrays are sums, float[n][4], or
// left operands, uint32_t[n][4]:
//
//   void WarpgroupFence(arrays...)
//                                 Permits matmuls that are issued later to use the arrays.
//   void WarpgroupMultiply<T, right>(float d[n][4], TileDescriptor a,
//                                    TileDescriptor b, bool add)
//   void WarpgroupMultiply<T, right>(float d[n][4], const uint32_t a[4],
//                                    TileDescriptor b, bool add)
//                                 Computes d (64, 8 n) += a (64, 16) b (16, 8 n) for BF16 or F16,
//                                 or d = a b if `add` is false. A warp holds 16 rows of d, and of
//                                 a if it is in registers, in the layout of mma.m16n8k16. If a is
//                                 in shared memory, its rows are rows of a tile. n is 4, 8 or 16.
//   void WarpgroupCommit()        Ends a group of matmuls, which may be empty.
//   void WarpgroupWait<k>(arrays...)
//                                 Waits until at most k groups are in flight. The matmuls of
//                                 completed groups no longer use the arrays.
//
// One thread calls these functions, except for AwaitBytes, which every waiting thread calls:
//
//   void InitBarrier(CopyBarrier* barrier)
//   void ExpectBytes(CopyBarrier* barrier, int bytes)
//                                 Announces the number of bytes of this phase, fewer than 2^20,
//                                 which copies after this call write. Each copy belongs to one
//                                 phase.
//   void CopyBox(void* shared, const TensorMap& map, BoxStart start,
//                CopyBarrier* barrier)
//                                 Starts to copy a box. All of its bytes count, including bytes
//                                 outside the array. `map` must be among the params of the kernel
//                                 and have rank 4. `shared` must be aligned to 128 bytes, or with
//                                 a swizzle to 8 rows of the box.
//   void AwaitBytes(CopyBarrier* barrier, int parity)
//                                 Waits until the phase has ended. This thread, and matmuls that
//                                 it issues, then see the bytes written by the copies.

#endif  // STOWAGE_GPU_WARPGROUP_H_
