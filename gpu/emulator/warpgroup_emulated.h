#ifndef STOWAGE_GPU_EMULATOR_WARPGROUP_EMULATED_H_
#define STOWAGE_GPU_EMULATOR_WARPGROUP_EMULATED_H_

// Implements the device functions of gpu/warpgroup.h by calls to the emulator. IWYU pragma:
// private, include "gpu/warpgroup.h"

#include <cstdint>
#include <type_traits>

#include "gpu/emulator/warpgroup.h"

namespace stowage::gpu {

inline int Warpgroup() { return ThreadId() / kWarpgroupSize; }

template <typename T>
T* SwizzledShared() {
  return DynamicShared<T>();  // aligned to 1,024 bytes in the emulator
}
inline uint32_t SharedByte(const void* shared) {
  return emulator::SharedByteOf(shared);
}
inline void ProxyFence() { emulator::FenceProxies(); }

namespace emulator {

template <typename Register, int n>
ProductArray ArrayOf(Register (&r)[n][4]) {
  return {r, sizeof(r), std::is_same_v<Register, float>};
}

template <typename T, RightFactor right, int n>
ProductCall CallOf(float (&d)[n][4], TileDescriptor b, bool add) {
  static_assert(n == 4 || n == 8 || n == 16);
  constexpr bool kBF16 = std::is_same_v<T, BF16>;
  static_assert(kBF16 || std::is_same_v<T, F16>);
  return {.to_float = kBF16 ? math::BFloat16ToFloat : math::HalfToFloat,
          .columns = 8 * n,
          .rows_of_b = right == kRowsOfB,
          .add = add,
          .d = &d[0][0],
          .a = nullptr,
          .a_tile = 0,
          .b_tile = b.bits};
}

}  // namespace emulator

template <typename... Arrays>
void WarpgroupFence(Arrays&... arrays) {
  (emulator::FenceProduct(emulator::ArrayOf(arrays)), ...);
}
inline void WarpgroupCommit() { emulator::CommitProducts(); }
template <int groups, typename... Arrays>
void WarpgroupWait(Arrays&... arrays) {
  emulator::AwaitProducts(groups);
  (emulator::TakeBack(emulator::ArrayOf(arrays)), ...);
}

template <typename T, RightFactor right, int n>
void WarpgroupMultiply(float (&d)[n][4], TileDescriptor a, TileDescriptor b,
                       bool add, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  auto call = emulator::CallOf<T, right>(d, b, add);
  call.a_tile = a.bits;
  emulator::IssueProduct(call, {"WarpgroupMultiply", file, line});
}
template <typename T, RightFactor right, int n>
void WarpgroupMultiply(float (&d)[n][4], const uint32_t (&a)[4],
                       TileDescriptor b, bool add,
                       const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  auto call = emulator::CallOf<T, right>(d, b, add);
  call.a = a;
  emulator::IssueProduct(call, {"WarpgroupMultiply", file, line});
}

inline void InitBarrier(CopyBarrier* barrier) {
  emulator::InitBarrier(&barrier->bits);
}
inline void ExpectBytes(CopyBarrier* barrier, int bytes) {
  emulator::ExpectBytes(&barrier->bits, bytes);
}
inline void CopyBox(void* shared, const TensorMap& map, BoxStart start,
                    CopyBarrier* barrier) {
  emulator::CopyBox(shared, map, start.at, &barrier->bits);
}
inline void AwaitBytes(CopyBarrier* barrier, int parity,
                       const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  emulator::AwaitBytes(&barrier->bits, parity, {"AwaitBytes", file, line});
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_EMULATOR_WARPGROUP_EMULATED_H_
