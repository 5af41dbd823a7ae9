#ifndef STOWAGE_GPU_SIMT_CUDA_H_
#define STOWAGE_GPU_SIMT_CUDA_H_

// Defines the device functions of gpu/simt.h in CUDA. Of the sources of kernels, only this file and
// gpu/warpgroup_cuda.h contain inline PTX. IWYU pragma: private, include "gpu/simt.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define STOWAGE_KERNEL(...) __global__ void __launch_bounds__(__VA_ARGS__)
#define STOWAGE_PARAMS(T) const __grid_constant__ T
#define STOWAGE_DEVICE __device__ __forceinline__
#define STOWAGE_UNROLL _Pragma("unroll")
#define STOWAGE_UNROLL_BY(n) STOWAGE_PRAGMA(unroll n)
#define STOWAGE_PRAGMA(text) _Pragma(#text)
#define STOWAGE_SHARED(T, name, n) __shared__ alignas(16) T name[n]

namespace stowage::gpu {

template <typename T>
STOWAGE_DEVICE T* DynamicShared() {
  extern __shared__ __align__(128) unsigned char stowage_dynamic_shared[];
  return reinterpret_cast<T*>(stowage_dynamic_shared);
}

STOWAGE_DEVICE int ThreadId() { return static_cast<int>(threadIdx.x); }
STOWAGE_DEVICE int BlockSize() { return static_cast<int>(blockDim.x); }
STOWAGE_DEVICE int Lane() { return ThreadId() % kWarpSize; }
STOWAGE_DEVICE int Warp() { return ThreadId() / kWarpSize; }
STOWAGE_DEVICE int BlockId() { return static_cast<int>(blockIdx.x); }
STOWAGE_DEVICE int BlockIdY() { return static_cast<int>(blockIdx.y); }
STOWAGE_DEVICE int GridSize() { return static_cast<int>(gridDim.x); }

STOWAGE_DEVICE void SyncThreads() { __syncthreads(); }
STOWAGE_DEVICE void SyncWarp() { __syncwarp(); }

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

template <typename T>
STOWAGE_DEVICE T ShuffleXor(T v, int mask) {
  return __shfl_xor_sync(kAllLanes, v, mask);
}
template <typename T>
STOWAGE_DEVICE T Shuffle(T v, int lane) {
  return __shfl_sync(kAllLanes, v, lane);
}
STOWAGE_DEVICE uint32_t Ballot(bool v) { return __ballot_sync(kAllLanes, v); }

template <typename T>
STOWAGE_DEVICE T AtomicAdd(T* at, T v) {
  return atomicAdd(at, v);
}
template <typename T>
STOWAGE_DEVICE T AtomicOr(T* at, T v) {
  return atomicOr(at, v);
}
STOWAGE_DEVICE void SystemFence() { __threadfence_system(); }

namespace internal {

template <typename T>
STOWAGE_DEVICE Pack<T> AsPack(const uint4& bits) {
  Pack<T> pack;
  *reinterpret_cast<uint4*>(&pack) = bits;
  return pack;
}
template <typename T>
STOWAGE_DEVICE uint4 AsBits(const Pack<T>& pack) {
  return *reinterpret_cast<const uint4*>(&pack);
}
STOWAGE_DEVICE unsigned SharedAddress(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

}  // namespace internal

template <typename T>
STOWAGE_DEVICE Pack<T> LoadPack(const T* from) {
  return internal::AsPack<T>(*reinterpret_cast<const uint4*>(from));
}
template <typename T>
STOWAGE_DEVICE void StorePack(T* to, const Pack<T>& pack) {
  *reinterpret_cast<uint4*>(to) = internal::AsBits(pack);
}
template <typename T>
STOWAGE_DEVICE Pack<T> LoadPackOnce(const T* from) {
  return internal::AsPack<T>(__ldcs(reinterpret_cast<const uint4*>(from)));
}
template <typename T>
STOWAGE_DEVICE void StorePackOnce(T* to, const Pack<T>& pack) {
  __stcs(reinterpret_cast<uint4*>(to), internal::AsBits(pack));
}

STOWAGE_DEVICE float ToFloat(float x) { return x; }
STOWAGE_DEVICE float ToFloat(BF16 x) { return math::BFloat16ToFloat(x.bits); }
STOWAGE_DEVICE float ToFloat(F16 x) {
  return __half2float(__ushort_as_half(x.bits));
}
template <typename T>
STOWAGE_DEVICE T FromFloat(float x);
template <>
STOWAGE_DEVICE float FromFloat<float>(float x) {
  return x;
}
template <>
STOWAGE_DEVICE BF16 FromFloat<BF16>(float x) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}
template <>
STOWAGE_DEVICE F16 FromFloat<F16>(float x) {
  return {__half_as_ushort(__float2half_rn(x))};
}
STOWAGE_DEVICE uint32_t PackBF16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

STOWAGE_DEVICE void LoadMatrix4(uint32_t r[4], const void* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(internal::SharedAddress(row))
      : "memory");
}
STOWAGE_DEVICE void LoadMatrix4Transposed(uint32_t r[4], const void* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(internal::SharedAddress(row))
      : "memory");
}
STOWAGE_DEVICE void MultiplyAddBF16(float d[4], const uint32_t a[4],
                                    const uint32_t b[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
STOWAGE_DEVICE void MultiplyAddF16(float d[4], const uint32_t a[4],
                                   const uint32_t b[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

STOWAGE_DEVICE void CopyAsyncZero16(void* shared, const void* global,
                                    bool valid) {
  const int bytes = valid ? 16 : 0;  // the rest of the 16 bytes become zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   internal::SharedAddress(shared)),
               "l"(global), "r"(bytes)
               : "memory");
}
STOWAGE_DEVICE void CopyAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int groups>
STOWAGE_DEVICE void CopyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

STOWAGE_DEVICE float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
STOWAGE_DEVICE float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

STOWAGE_DEVICE int NotInAdvance(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

STOWAGE_DEVICE void ReportFault(const FaultSlot& slot) {
  atomicMin(slot.word, slot.launch);
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_SIMT_CUDA_H_
