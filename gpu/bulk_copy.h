#ifndef STOWAGE_GPU_BULK_COPY_H_
#define STOWAGE_GPU_BULK_COPY_H_

// More words for kernels, beside those of gpu/warpgroup.h: copies of whole boxes of an
// array to shared memory, which one thread starts and the device's tensor memory
// accelerator carries out, with the zeros around the array and the exchange of chunks that
// products want. They are cp.async.bulk.tensor of the PTX ISA, and like products of
// warpgroups for devices of compute capability 9.0 alone.
//
// Who needs the bytes waits for a barrier in shared memory. Its phases follow one another:
// each has one thread that says how many bytes it brings, and ends when they are there.
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
// The phases of a barrier are 0, 1, 0, 1 and so on to those who wait, so nobody may be two
// of them late: a SyncThreads between the wait for a phase and the ExpectBytes of the next
// one sees to that. Such a one lies, too, between what reads a tile and the copy that
// writes over it; where it was written by other means, a ProxyFence before it.

#include <cstdint>

#include "gpu/simt.h"
#include "gpu/tensor_map.h"
#include "gpu/warpgroup.h"

namespace stowage::gpu {

/// A barrier in shared memory: what the device makes of it.
struct CopyBarrier {
  uint64_t bits;
};

/// Where a box begins in an array of rank 4, the innermost dimension first, in elements;
/// also before or behind it.
struct BoxStart {
  int at[4];
};

}  // namespace stowage::gpu

#if defined(__CUDACC__)
#include "gpu/bulk_copy_cuda.h"  // IWYU pragma: export
#else
#include "gpu/emulator/bulk_copy_emulated.h"  // IWYU pragma: export
#endif

// Both define, in namespace stowage::gpu:
//
//   void InitBarrier(CopyBarrier* barrier)
//   void ExpectBytes(CopyBarrier* barrier, int bytes)
//                                 the bytes of this phase, fewer than 2^20: of copies that
//                                 follow, of which none may be of another phase
//   void CopyBox(void* shared, const TensorMap& map, BoxStart start,
//                CopyBarrier* barrier)
//                                 starts to copy a box, of which all bytes count, also
//                                 those outside of the array. `map` is among the kernel's
//                                 params and of rank 4; `shared` is at a multiple of 128
//                                 bytes, or of 8 rows of the box where these are exchanged
//   void AwaitBytes(CopyBarrier* barrier, int parity)
//                                 until the phase has ended; this thread then sees what
//                                 its copies wrote, and products that it issues do
#endif  // STOWAGE_GPU_BULK_COPY_H_
