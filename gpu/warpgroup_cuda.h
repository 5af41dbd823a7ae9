#ifndef STOWAGE_GPU_WARPGROUP_CUDA_H_
#define STOWAGE_GPU_WARPGROUP_CUDA_H_

// Defines the device functions of gpu/warpgroup.h in CUDA.
// IWYU pragma: private, include "gpu/warpgroup.h"

#include <type_traits>

namespace stowage::gpu {

// Due to the shuffle, the compiler knows that the result is the same in all lanes.
STOWAGE_DEVICE int Warpgroup() {
  return Shuffle(ThreadId() / kWarpgroupSize, 0);
}

namespace internal {

STOWAGE_DEVICE unsigned char* SwizzledBytes() {
  extern __shared__ __align__(1024) unsigned char stowage_dynamic_shared[];
  return stowage_dynamic_shared;
}

}  // namespace internal

template <typename T>
STOWAGE_DEVICE T* SwizzledShared() {
  return reinterpret_cast<T*>(internal::SwizzledBytes());
}

STOWAGE_DEVICE uint32_t SharedByte(const void* shared) {
  return internal::SharedAddress(shared);
}

STOWAGE_DEVICE void ProxyFence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

namespace internal {

// Prevents the compiler from moving reads or writes of these registers past this point.
template <int n>
STOWAGE_DEVICE void Touch(float (&r)[n][4]) {
  STOWAGE_UNROLL
  for (int i = 0; i < n; ++i) {
    asm volatile(""
                 : "+f"(r[i][0]), "+f"(r[i][1]), "+f"(r[i][2]), "+f"(r[i][3])
                 :
                 : "memory");
  }
}
template <int n>
STOWAGE_DEVICE void Touch(uint32_t (&r)[n][4]) {
  STOWAGE_UNROLL
  for (int i = 0; i < n; ++i) {
    asm volatile(""
                 : "+r"(r[i][0]), "+r"(r[i][1]), "+r"(r[i][2]), "+r"(r[i][3])
                 :
                 : "memory");
  }
}

}  // namespace internal

template <typename... Arrays>
STOWAGE_DEVICE void WarpgroupFence(Arrays&... arrays) {
  (internal::Touch(arrays), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
STOWAGE_DEVICE void WarpgroupCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int groups, typename... Arrays>
STOWAGE_DEVICE void WarpgroupWait(Arrays&... arrays) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
  (internal::Touch(arrays), ...);
}

// Operands of the instruction for each number of columns: the registers of d in the instruction
// text, and the operands of the asm statement.
#define STOWAGE_D16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define STOWAGE_D32 \
  STOWAGE_D16       \
  ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define STOWAGE_D64                                                      \
  STOWAGE_D32                                                            \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48" \
  ",%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define STOWAGE_SUM(i) \
  "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define STOWAGE_SUMS16 \
  STOWAGE_SUM(0), STOWAGE_SUM(1), STOWAGE_SUM(2), STOWAGE_SUM(3)
#define STOWAGE_SUMS32 \
  STOWAGE_SUMS16, STOWAGE_SUM(4), STOWAGE_SUM(5), STOWAGE_SUM(6), STOWAGE_SUM(7)
#define STOWAGE_SUMS64                                                    \
  STOWAGE_SUMS32, STOWAGE_SUM(8), STOWAGE_SUM(9), STOWAGE_SUM(10),        \
      STOWAGE_SUM(11), STOWAGE_SUM(12), STOWAGE_SUM(13), STOWAGE_SUM(14), \
      STOWAGE_SUM(15)

#define STOWAGE_MULTIPLY_SHARED(type, columns, text, sums, a_at, b_at, add_at, \
                                right_at)                                      \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #add_at                \
               ", 0;\n"                                                        \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type    \
               "." type " {" text "}, %" #a_at ", %" #b_at                     \
               ", add, 1, 1, 0, %" #right_at ";\n}"                            \
               : sums                                                          \
               : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(add)),         \
                 "n"(static_cast<int>(right)))

#define STOWAGE_MULTIPLY_REGISTERS(type, columns, text, sums, a_at, b_at,   \
                                   add_at, right_at)                        \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #add_at             \
               ", 0;\n"                                                     \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type \
               "." type " {" text "}, {" a_at "}, %" #b_at                  \
               ", add, 1, 1, %" #right_at ";\n}"                            \
               : sums                                                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits),   \
                 "r"(static_cast<int>(add)), "n"(static_cast<int>(right)))

#define STOWAGE_MULTIPLY_FROM_SHARED(type)                                     \
  if constexpr (n == 4) {                                                      \
    STOWAGE_MULTIPLY_SHARED(type, 32, STOWAGE_D16, STOWAGE_SUMS16, 16, 17, 18, \
                            19);                                               \
  } else if constexpr (n == 8) {                                               \
    STOWAGE_MULTIPLY_SHARED(type, 64, STOWAGE_D32, STOWAGE_SUMS32, 32, 33, 34, \
                            35);                                               \
  } else {                                                                     \
    STOWAGE_MULTIPLY_SHARED(type, 128, STOWAGE_D64, STOWAGE_SUMS64, 64, 65,    \
                            66, 67);                                           \
  }
#define STOWAGE_MULTIPLY_FROM_REGISTERS(type)                          \
  if constexpr (n == 4) {                                              \
    STOWAGE_MULTIPLY_REGISTERS(type, 32, STOWAGE_D16, STOWAGE_SUMS16,  \
                               "%16,%17,%18,%19", 20, 21, 22);         \
  } else if constexpr (n == 8) {                                       \
    STOWAGE_MULTIPLY_REGISTERS(type, 64, STOWAGE_D32, STOWAGE_SUMS32,  \
                               "%32,%33,%34,%35", 36, 37, 38);         \
  } else {                                                             \
    STOWAGE_MULTIPLY_REGISTERS(type, 128, STOWAGE_D64, STOWAGE_SUMS64, \
                               "%64,%65,%66,%67", 68, 69, 70);         \
  }

template <typename T, RightFactor right, int n>
STOWAGE_DEVICE void WarpgroupMultiply(float (&d)[n][4], TileDescriptor a,
                                      TileDescriptor b, bool add) {
  static_assert(n == 4 || n == 8 || n == 16);
  if constexpr (std::is_same_v<T, BF16>) {
    STOWAGE_MULTIPLY_FROM_SHARED("bf16")
  } else {
    static_assert(std::is_same_v<T, F16>);
    STOWAGE_MULTIPLY_FROM_SHARED("f16")
  }
}
template <typename T, RightFactor right, int n>
STOWAGE_DEVICE void WarpgroupMultiply(float (&d)[n][4], const uint32_t (&a)[4],
                                      TileDescriptor b, bool add) {
  static_assert(n == 4 || n == 8 || n == 16);
  if constexpr (std::is_same_v<T, BF16>) {
    STOWAGE_MULTIPLY_FROM_REGISTERS("bf16")
  } else {
    static_assert(std::is_same_v<T, F16>);
    STOWAGE_MULTIPLY_FROM_REGISTERS("f16")
  }
}

#undef STOWAGE_D16
#undef STOWAGE_D32
#undef STOWAGE_D64
#undef STOWAGE_SUM
#undef STOWAGE_SUMS16
#undef STOWAGE_SUMS32
#undef STOWAGE_SUMS64
#undef STOWAGE_MULTIPLY_SHARED
#undef STOWAGE_MULTIPLY_REGISTERS
#undef STOWAGE_MULTIPLY_FROM_SHARED
#undef STOWAGE_MULTIPLY_FROM_REGISTERS

// --- Bulk copies -------------------------------------------------------------

STOWAGE_DEVICE void InitBarrier(CopyBarrier* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(
                   internal::SharedAddress(barrier))
               : "memory");
}

STOWAGE_DEVICE void ExpectBytes(CopyBarrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   internal::SharedAddress(barrier)),
               "r"(bytes)
               : "memory");
}

// Copies to the shared memory of this block, which is the only block of its cluster.
STOWAGE_DEVICE void CopyBox(void* shared, const TensorMap& map, BoxStart start,
                            CopyBarrier* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
          internal::SharedAddress(shared)),
      "l"(&map), "r"(start.at[0]), "r"(start.at[1]), "r"(start.at[2]),
      "r"(start.at[3]), "r"(internal::SharedAddress(barrier))
      : "memory");
}

STOWAGE_DEVICE void AwaitBytes(CopyBarrier* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(internal::SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_WARPGROUP_CUDA_H_
