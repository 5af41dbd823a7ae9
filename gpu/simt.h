#ifndef STOWAGE_GPU_SIMT_H_
#define STOWAGE_GPU_SIMT_H_

// Declares the device functions and macros with which kernels are written: threads, warps, shared
// memory, barriers, 16-byte loads and tensor-core matmuls. With nvcc, they are CUDA. With other C++
// compilers, they call an emulator that runs one fiber per thread (gpu/emulator/), so that the
// source of a kernel is tested without a GPU. A kernel must not use other CUDA functions.
//
//   struct SumParams { const float* x; float* y; int64_t n; };
//
//   STOWAGE_KERNEL(256) RowSum(STOWAGE_PARAMS(SumParams) p) {
//     STOWAGE_SHARED(float, partial, kWarpSize);
//     float sum = 0;
//     for (int64_t i = ThreadId(); i < p.n; i += BlockSize()) {
//       sum += p.x[BlockId() * p.n + i];
//     }
//     sum = BlockSum(sum, &partial[0]);  // gpu/kernels/rows.h
//     if (ThreadId() == 0) p.y[BlockId()] = sum;
//   }
//
// Rules for both compilers:
//  - All 32 lanes of a warp must call a warp function. All threads of a block that have not
//    returned must call SyncThreads.
//  - Blocks are one-dimensional. Grids have up to two dimensions. Kernels must not depend on the
//    order in which blocks or warps run.
//  - Device functions are marked STOWAGE_DEVICE. Formulas that host code shares are marked
//    STOWAGE_HOST_DEVICE (math/portable.h).
//  - Atomics on floats are not allowed, since sums must have a fixed order.

#include <cstdint>

#include "gpu/queue.h"
#include "math/portable.h"
#include "math/small_floats.h"

namespace stowage::gpu {

inline constexpr int kWarpSize = 32;

/// The 16-bit floating-point types, as stored in memory.
struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

/// The elements of T in 16 bytes, which are loaded or stored with one instruction. T must have 1,
/// 2, 4 or 8 bytes.
template <typename T>
inline constexpr int kPackSize = static_cast<int>(16 / sizeof(T));
template <typename T>
struct alignas(16) Pack {
  T value[kPackSize<T>];
};

}  // namespace stowage::gpu

#if defined(__CUDACC__)
#include "gpu/simt_cuda.h"  // IWYU pragma: export
#else
#include "gpu/emulator/simt_emulated.h"  // IWYU pragma: export
#endif

// Both headers define, in namespace stowage::gpu:
//
//   STOWAGE_KERNEL(threads)       Declares a kernel with at most `threads` threads per block. An
//                                 optional second number is the minimum number of resident
//                                 blocks. May follow template <...>.
//   STOWAGE_PARAMS(T)             The type of a kernel's only parameter, passed by value.
//   STOWAGE_DEVICE                Marks a function called by kernels.
//   STOWAGE_UNROLL                Unrolls the loop of constant length that follows, so that the
//                                 arrays it indexes can be in registers.
//   STOWAGE_UNROLL_BY(n)          Unrolls the loop that follows n times.
//   STOWAGE_SHARED(T, name, n)    Declares n elements shared by the block, aligned to 16 bytes.
//                                 n must be a constant. name[i] requires i in [0, n).
//   T* DynamicShared<T>()         Returns the shared memory requested at launch, aligned to 128
//                                 bytes.
//
//   int ThreadId(), BlockSize(), Lane(), Warp()      x is the only dimension.
//   int BlockId(), BlockIdY(), GridSize()            GridSize is along x.
//
//   void SyncThreads(), SyncWarp()
//   T ShuffleXor(T v, int mask), Shuffle(T v, int lane)
//                                 T must have 4 or 8 bytes.
//   uint32_t Ballot(bool)
//   int32_t/uint32_t AtomicAdd(T*, T), AtomicOr(T*, T)
//                                 Update an integer in global or shared memory, and return the old
//                                 value.
//   void SystemFence()            See __threadfence_system.
//
//   Pack<T> LoadPack(const T*), void StorePack(T*, const Pack<T>&)
//                                 The address must be a multiple of 16 bytes.
//   Pack<T> LoadPackOnce(const T*), void StorePackOnce(T*, const Pack<T>&)
//                                 The same for data that is used only once. The caches evict this
//                                 data before other data.
//
//   float ToFloat(T x); T FromFloat<T>(float x)     T: float, BF16, F16
//                                 FromFloat rounds to nearest, ties to even.
//   uint32_t PackBF16(float low, float high)        Packs two rounded numbers, low in bits 0-15.
//
// Tensor cores, for 16-bit operands with f32 sums. All lanes of a warp must call these functions
// together. Fragments have the layouts of mma.m16n8k16 and ldmatrix in the PTX ISA:
//
//   void LoadMatrix4(uint32_t r[4], const void* row)            ldmatrix.x4
//   void LoadMatrix4Transposed(uint32_t r[4], const void* row)  ldmatrix.x4.trans
//                                 `row` is this lane's 16-byte row in shared memory.
//   void MultiplyAddBF16(float d[4], const uint32_t a[4], const uint32_t b[2])
//                                 d += a b
//   void MultiplyAddF16(float d[4], const uint32_t a[4], const uint32_t b[2])
//
// Asynchronous copies from global to shared memory, 16 bytes each:
//
//   void CopyAsyncZero16(void* shared, const void* global, bool valid)
//                                 If `valid` is false, writes zeros and does not read `global`.
//   void CopyAsyncCommit()        Ends a group.
//   void CopyAsyncWait<n>()       Waits until at most n groups of this thread are in flight. The
//                                 copies of its other groups are then visible to this thread, and
//                                 after a SyncThreads to the whole block.
//
//   float Exp2(float x)           Returns 2^x with a relative error below 2^-20.
//   float Reciprocal(float x)     Returns 1 / x with a relative error below 2^-22. A subnormal x
//                                 counts as 0, and a subnormal result is 0.
//
//   int NotInAdvance(int x)       Returns x, but the compiler cannot know this. Values in a loop
//                                 that depend on the result are therefore recomputed in every
//                                 iteration, and do not occupy registers between iterations.
//
//   void ReportFault(const FaultSlot& slot)
//                                 Reports that an index is out of range (FaultSlot).

#endif  // STOWAGE_GPU_SIMT_H_
