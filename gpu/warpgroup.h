#ifndef STOWAGE_GPU_WARPGROUP_H_
#define STOWAGE_GPU_WARPGROUP_H_

// Declares device functions that require compute capability 9.0, in addition to the functions of
// gpu/simt.h. The four warps of a warpgroup multiply tiles in shared memory (wgmma of the PTX ISA).
// The tensor memory accelerator copies boxes of an array to shared memory (cp.async.bulk.tensor).
// Other devices lack these instructions, so a file that includes this header is compiled for that
// capability only (:hopper_kernels in gpu/BUILD).
//
// Matmuls:
//
//   // s (64, 32) = a b^T, where a and b are tiles with 64 elements per row.
//   float s[4][4];
//   WarpgroupFence(s);
//   for (int k = 0; k < 4; ++k) {
//     WarpgroupMultiply<BF16, kRowsOfB>(s, a.Plus(32 * k), b.Plus(32 * k), k > 0);
//   }
//   WarpgroupCommit();
//   ...                     // other work, which must not use s
//   WarpgroupWait<0>(s);    // s may be used after this
//
// A matmul runs asynchronously from its call until the wait for its group. In between, its
// registers must not be used, and its tiles must not be written.
//
// A tile is a matrix in shared memory, which consists of panels. The rows of a panel have kRowBytes
// bytes, which is 64 or 128. The 16-byte chunks of a panel are permuted by Swizzled
// (gpu/kernels/fragments.h), which is the swizzle of the ISA for kRowBytes. The offset of a panel
// is a multiple of the size of 8 rows. If the rows of a tile have at most 128 bytes, the tile is
// one panel. Otherwise, it consists of several panels of equal size, each of which holds a range of
// columns.
//
// Bulk copies: one thread starts the copy of a box (gpu/tensor_map.h). The device performs the
// copy, writes zeros for elements outside the array, and permutes the chunks. A thread that reads
// the bytes must first wait at a barrier in shared memory. A barrier has phases. In each phase, one
// thread announces the number of bytes that copies will write, and the phase ends when they have
// been written.
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
// A thread that waits identifies a phase only by its parity, which alternates between 0 and 1. It
// must therefore not begin to wait for a phase after the next phase has ended. A SyncThreads must
// separate the wait for a phase from the ExpectBytes of the next phase. A SyncThreads must also
// separate the reads of a tile from the copy that overwrites it. If the tile was written by other
// instructions, a ProxyFence must precede that SyncThreads.

#include <cstdint>

#include "gpu/simt.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu {

inline constexpr int kWarpgroupSize = 4 * kWarpSize;

/// The layout of the right operand b (16, n) in a tile. With kRowsOfB, element (k, column) of b is
/// at column `k` of row `column` of the tile. With kColumnsOfB, it is at column `column` of row
/// `k`.
enum class RightFactor { kRowsOfB, kColumnsOfB };
inline constexpr RightFactor kRowsOfB = RightFactor::kRowsOfB;
inline constexpr RightFactor kColumnsOfB = RightFactor::kColumnsOfB;

/// The location and layout of a matmul operand in shared memory, encoded as a matrix descriptor of
/// the PTX ISA.
struct TileDescriptor {
  uint64_t bits;

  /// Returns the descriptor advanced by `bytes`, which must be a multiple of the size of eight
  /// rows. If elements with adjacent k are adjacent in a row of the tile, `bytes` may also include
  /// an offset within a row that is a multiple of 16.
  STOWAGE_DEVICE TileDescriptor Plus(int bytes) const {
    return {bits + static_cast<uint64_t>(bytes / 16)};
  }
};

/// Returns the descriptor of a tile whose first panel is at offset `at` in shared memory
/// (SharedByte) and whose panels are `panel_bytes` apart.
template <int kRowBytes>
STOWAGE_DEVICE TileDescriptor DescribeTile(uint32_t at, int panel_bytes) {
  static_assert(kRowBytes == 64 || kRowBytes == 128);
  constexpr uint64_t kSwizzle = kRowBytes == 128 ? 1 : 2;
  constexpr uint64_t kEightRows = 8 * kRowBytes;
  return {(uint64_t{at} & 0x3FFFF) >> 4 |
          static_cast<uint64_t>(panel_bytes / 16) << 16 |
          kEightRows / 16 << 32 | kSwizzle << 62};
}

/// A barrier in shared memory, at which threads wait for bulk copies. The device defines its
/// contents.
struct CopyBarrier {
  uint64_t bits;
};

/// The indices in an array of rank 4 at which a box starts, innermost dimension first. They may be
/// outside the array.
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
//   void ProxyFence()             Makes writes of this thread to shared memory, including its
//                                 CopyAsync copies that have been awaited, visible to matmuls and
//                                 bulk copies that this thread issues later, or that any thread
//                                 issues after a SyncThreads.
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
//                                 or d = a b if `add` is false. Each warp holds 16 rows of d in
//                                 registers, in the layout of mma.m16n8k16. If a is in registers,
//                                 each warp holds its 16 rows of a in this layout, too. If a is in
//                                 shared memory, its rows are rows of a tile. n must be 4, 8 or 16.
//   void WarpgroupCommit()        Ends a group of matmuls, which may be empty.
//   void WarpgroupWait<k>(arrays...)
//                                 Waits until at most k groups are in flight. The arrays that the
//                                 matmuls of the completed groups use must be passed. The thread
//                                 may use them after this.
//
// One thread calls these functions, except for AwaitBytes, which every waiting thread calls:
//
//   void InitBarrier(CopyBarrier* barrier)
//   void ExpectBytes(CopyBarrier* barrier, int bytes)
//                                 Announces the number of bytes that the copies of this phase will
//                                 write, which must be below 2^20. Must be called once per phase,
//                                 before its copies are started.
//   void CopyBox(void* shared, const TensorMap& map, BoxStart start,
//                CopyBarrier* barrier)
//                                 Starts to copy a box to `shared`, in the current phase of
//                                 `barrier`. All bytes of the box count as written, including bytes
//                                 outside the array. `map` must be part of the kernel's params and
//                                 have rank 4. `shared` must be aligned to 128 bytes, or with a
//                                 swizzle to the size of 8 rows of the box.
//   void AwaitBytes(CopyBarrier* barrier, int parity)
//                                 Waits until the phase with this parity has ended. The bytes that
//                                 its copies have written are then visible to this thread and to
//                                 the matmuls that it issues.

#endif  // STOWAGE_GPU_WARPGROUP_H_
