#ifndef STOWAGE_GPU_SIMT_H_
#define STOWAGE_GPU_SIMT_H_

// The device functions and macros in which kernels are written: threads, warps, shared
// memory, barriers, 16-byte loads, tensor-core matmuls. nvcc compiles them to CUDA; any C++
// compiler to calls of an emulator that runs a fiber per thread (gpu/emulator/), so that the
// same source is tested without a GPU. A kernel must use nothing else of CUDA.
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
//  - Warp functions are called by all 32 lanes of a warp, SyncThreads by all
//    threads of a block that have not returned.
//  - Blocks are one-dimensional, grids up to two. Nothing may be assumed of the
//    order in which blocks or warps run.
//  - Device functions are marked STOWAGE_DEVICE, or STOWAGE_HOST_DEVICE
//    (math/portable.h) when they are formulas.
//  - No atomics on floats: sums have a fixed order.

#include <cstdint>

#include "gpu/queue.h"
#include "math/portable.h"
#include "math/small_floats.h"

namespace stowage::gpu {

inline constexpr int kWarpSize = 32;

/// The 16-bit floating-point types in memory.
struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

/// 16 bytes of T, one load or store. T is 1, 2, 4 or 8 bytes.
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

// Both define, in namespace stowage::gpu:
//
//   STOWAGE_KERNEL(threads)       declares a kernel with at most so many threads per
//                                 block and, with a second number, at least so many
//                                 resident blocks; may follow template <...>
//   STOWAGE_PARAMS(T)             the type of a kernel's one parameter, by value
//   STOWAGE_DEVICE                marks a function called by kernels
//   STOWAGE_UNROLL                before a loop of constant length: unrolled, so
//                                 that arrays it indexes can be in registers
//   STOWAGE_UNROLL_BY(n)          before a loop: unrolled n times
//   STOWAGE_SHARED(T, name, n)    n elements (a constant) shared by the block,
//                                 aligned to 16 bytes; name[i] in [0, n)
//   T* DynamicShared<T>()         the bytes asked for at launch, 128-aligned
//
//   int ThreadId(), BlockSize(), Lane(), Warp()      x is the only dimension
//   int BlockId(), BlockIdY(), GridSize()            the last along x
//
//   void SyncThreads(), SyncWarp()
//   T ShuffleXor(T v, int mask), Shuffle(T v, int lane)
//                                 T of 4 or 8 bytes
//   uint32_t Ballot(bool)
//   int32_t/uint32_t AtomicAdd(T*, T), AtomicOr(T*, T)
//                                 on global or shared integers; the old value
//   void SystemFence()            as __threadfence_system
//
//   Pack<T> LoadPack(const T*), void StorePack(T*, const Pack<T>&)
//                                 at a multiple of 16 bytes
//   Pack<T> LoadPackOnce(const T*), void StorePackOnce(T*, const Pack<T>&)
//                                 likewise, for data that is used once: it does
//                                 not evict other data from the caches
//
//   float ToFloat(T x); T FromFloat<T>(float x)     T: float, BF16, F16
//                                 rounds to nearest, ties to even
//   uint32_t PackBF16(float low, float high)        two rounded, low in bits 0-15
//
// Tensor cores, on bf16 with f32 sums; a warp together. Fragments are those of
// the PTX ISA, mma.m16n8k16 and ldmatrix:
//
//   void LoadMatrix4(uint32_t r[4], const void* row)            ldmatrix.x4
//   void LoadMatrix4Transposed(uint32_t r[4], const void* row)  ldmatrix.x4.trans
//                                 row: this lane's 16-byte row in shared memory
//   void MultiplyAddBF16(float d[4], const uint32_t a[4], const uint32_t b[2])
//                                 d += a b
//   void MultiplyAddF16(float d[4], const uint32_t a[4], const uint32_t b[2])
//
// Asynchronous copies from global to shared memory, 16 bytes each:
//
//   void CopyAsyncZero16(void* shared, const void* global, bool valid)
//                                 zeros when not valid; global is not read
//   void CopyAsyncCommit()        ends a group
//   void CopyAsyncWait<n>()       until at most n groups are under way; then a
//                                 SyncThreads makes them visible to the block
//
//   float Exp2(float x)           2^x, approximate: relative error below 2^-20
//   float Reciprocal(float x)     1 / x, approximate: relative error below 2^-22; a
//                                 subnormal x counts as 0, and so does such a result
//
//   int NotInAdvance(int x)       x, hidden from the optimizer: in a loop, values that
//                                 depend on it are computed in every iteration, and
//                                 take no register in between
//
//   void ReportFault(const FaultSlot& slot)
//                                 reports that an index is out of range

#endif  // STOWAGE_GPU_SIMT_H_
