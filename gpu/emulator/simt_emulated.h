#ifndef STOWAGE_GPU_EMULATOR_SIMT_EMULATED_H_
#define STOWAGE_GPU_EMULATOR_SIMT_EMULATED_H_

// Implements the device functions of gpu/simt.h by calls to the emulator. IWYU pragma: private,
// include "gpu/simt.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpu/emulator/context.h"

#define STOWAGE_KERNEL(...) void
#define STOWAGE_PARAMS(T) const T
#define STOWAGE_DEVICE inline
#define STOWAGE_UNROLL
#define STOWAGE_UNROLL_BY(n)
#define STOWAGE_SHARED(T, name, n)                                        \
  static thread_local ::stowage::gpu::emulator::SharedArray<T, (n)> name; \
  name.Open(#name)
// The last parameters of a device function, which receive the location of the call.
#define STOWAGE_SITE \
  const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace stowage::gpu {
namespace emulator {

/// An array of `n` elements that a block shares. The type has no constructor, because each block
/// reuses the array.
template <typename T, int64_t n>
struct SharedArray {
  T& operator[](int64_t i) {
    if (static_cast<uint64_t>(i) >= static_cast<uint64_t>(n)) {
      ReportIndex(name, i, n);
    }
    return reinterpret_cast<T*>(bytes + kGuardBytes)[i];
  }
  void Open(const char* its_name) {
    if (serial == context.serial) return;
    serial = context.serial;
    name = its_name;
    OpenShared(name, bytes + kGuardBytes, sizeof(T) * n);
  }

  alignas(16) std::byte bytes[kGuardBytes + sizeof(T) * n + kGuardBytes];
  const char* name;
  uint64_t serial;  // of the last block that used it
};

inline void CheckAligned(const char* word, const void* address) {
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) {
    ReportMisaligned(word, address);
  }
}

template <typename T>
struct Exchange {
  T value;
  int with;  // the lane whose value this lane reads
  T result;
};

template <typename T>
T ExchangeInWarp(T value, int with, const Site& site) {
  Exchange<T> mine{value, with, {}};
  AwaitWarp(
      [](void* const* lanes) {
        for (int i = 0; i < kWarpSize; ++i) {
          auto* lane = static_cast<Exchange<T>*>(lanes[i]);
          lane->result = static_cast<Exchange<T>*>(lanes[lane->with])->value;
        }
      },
      &mine, site);
  return mine.result;
}

struct MatrixLoad {
  const void* row;
  uint32_t* r;
};

// Loads four 8 x 8 matrices of 16-bit elements. Lane 8 i + j has the address of row j of matrix i.
template <bool transposed>
void CompleteMatrixLoad(void* const* lanes) {
  for (int matrix = 0; matrix < 4; ++matrix) {
    uint16_t m[8][8];
    for (int row = 0; row < 8; ++row) {
      std::memcpy(m[row],
                  static_cast<const MatrixLoad*>(lanes[8 * matrix + row])->row,
                  16);
    }
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const int i = lane / 4, j = lane % 4 * 2;
      const uint32_t low = transposed ? m[j][i] : m[i][j];
      const uint32_t high = transposed ? m[j + 1][i] : m[i][j + 1];
      static_cast<MatrixLoad*>(lanes[lane])->r[matrix] = low | high << 16;
    }
  }
}

template <bool transposed>
void LoadMatrices(uint32_t* r, const void* row, const Site& site) {
  CheckShared16(site.word, row);
  MatrixLoad mine{row, r};
  AwaitWarp(CompleteMatrixLoad<transposed>, &mine, site);
}

struct Product {
  float* d;
  const uint32_t *a, *b;
};

// Computes mma.m16n8k16: d (16, 8) += a (16, 16) b (16, 8).
template <float (*to_float)(uint16_t)>
void CompleteProduct(void* const* lanes) {
  float a[16][16], b[8][16];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto* p = static_cast<const Product*>(lanes[lane]);
    const int group = lane / 4, pair = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      const auto at = [half](uint32_t two) {
        return to_float(static_cast<uint16_t>(two >> (16 * half)));
      };
      for (int i = 0; i < 4; ++i) {
        a[group + i % 2 * 8][pair + i / 2 * 8 + half] = at(p->a[i]);
      }
      for (int i = 0; i < 2; ++i) b[group][pair + i * 8 + half] = at(p->b[i]);
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto* p = static_cast<const Product*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      const float* row = a[lane / 4 + i / 2 * 8];
      const float* column = b[lane % 4 * 2 + i % 2];
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += row[k] * column[k];
      p->d[i] += sum;
    }
  }
}

template <float (*to_float)(uint16_t)>
void MultiplyAdd(float* d, const uint32_t* a, const uint32_t* b,
                 const Site& site) {
  Product mine{d, a, b};
  AwaitWarp(CompleteProduct<to_float>, &mine, site);
}

}  // namespace emulator

template <typename T>
T* DynamicShared() {
  return reinterpret_cast<T*>(emulator::context.dynamic_shared);
}

inline int ThreadId() { return emulator::context.thread; }
inline int BlockSize() { return emulator::context.block_size; }
inline int Lane() { return ThreadId() % kWarpSize; }
inline int Warp() { return ThreadId() / kWarpSize; }
inline int BlockId() { return emulator::context.block[0]; }
inline int BlockIdY() { return emulator::context.block[1]; }
inline int GridSize() { return emulator::context.grid_size; }

inline void SyncThreads(STOWAGE_SITE) {
  emulator::AwaitBlock({"SyncThreads", file, line});
}
inline void SyncWarp(STOWAGE_SITE) {
  emulator::AwaitWarp([](void* const*) {}, nullptr, {"SyncWarp", file, line});
}

template <typename T>
T ShuffleXor(T v, int mask, STOWAGE_SITE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return emulator::ExchangeInWarp(v, (Lane() ^ mask) % kWarpSize,
                                  {"ShuffleXor", file, line});
}
template <typename T>
T Shuffle(T v, int lane, STOWAGE_SITE) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  return emulator::ExchangeInWarp(v, lane & (kWarpSize - 1),
                                  {"Shuffle", file, line});
}
inline uint32_t Ballot(bool v, STOWAGE_SITE) {
  uint32_t mine = v ? 1 : 0;
  emulator::AwaitWarp(
      [](void* const* lanes) {
        uint32_t votes = 0;
        for (int i = 0; i < kWarpSize; ++i) {
          votes |= *static_cast<uint32_t*>(lanes[i]) << i;
        }
        for (int i = 0; i < kWarpSize; ++i) {
          *static_cast<uint32_t*>(lanes[i]) = votes;
        }
      },
      &mine, {"Ballot", file, line});
  return mine;
}

template <typename T>
T AtomicAdd(T* at, T v) {
  const T old = *at;
  *at = static_cast<T>(static_cast<uint32_t>(old) + static_cast<uint32_t>(v));
  return old;
}
template <typename T>
T AtomicOr(T* at, T v) {
  const T old = *at;
  *at = old | v;
  return old;
}
inline void SystemFence() {}

template <typename T>
Pack<T> LoadPack(const T* from) {
  emulator::CheckAligned("LoadPack", from);
  Pack<T> pack;
  std::memcpy(&pack, from, sizeof(pack));
  return pack;
}
template <typename T>
void StorePack(T* to, const Pack<T>& pack) {
  emulator::CheckAligned("StorePack", to);
  std::memcpy(to, &pack, sizeof(pack));
  emulator::NoteStore(to);
}
template <typename T>
Pack<T> LoadPackOnce(const T* from) {
  return LoadPack(from);
}
template <typename T>
void StorePackOnce(T* to, const Pack<T>& pack) {
  StorePack(to, pack);
}

inline float ToFloat(float x) { return x; }
inline float ToFloat(BF16 x) { return math::BFloat16ToFloat(x.bits); }
inline float ToFloat(F16 x) { return math::HalfToFloat(x.bits); }
template <typename T>
T FromFloat(float x);
template <>
inline float FromFloat<float>(float x) {
  return x;
}
template <>
inline BF16 FromFloat<BF16>(float x) {
  return {math::FloatToBFloat16(x)};
}
template <>
inline F16 FromFloat<F16>(float x) {
  return {math::FloatToHalf(x)};
}
inline uint32_t PackBF16(float low, float high) {
  return uint32_t{math::FloatToBFloat16(low)} |
         uint32_t{math::FloatToBFloat16(high)} << 16;
}

inline void LoadMatrix4(uint32_t r[4], const void* row, STOWAGE_SITE) {
  emulator::LoadMatrices<false>(r, row, {"LoadMatrix4", file, line});
}
inline void LoadMatrix4Transposed(uint32_t r[4], const void* row,
                                  STOWAGE_SITE) {
  emulator::LoadMatrices<true>(r, row, {"LoadMatrix4Transposed", file, line});
}
inline void MultiplyAddBF16(float d[4], const uint32_t a[4],
                            const uint32_t b[2], STOWAGE_SITE) {
  emulator::MultiplyAdd<math::BFloat16ToFloat>(d, a, b,
                                               {"MultiplyAddBF16", file, line});
}
inline void MultiplyAddF16(float d[4], const uint32_t a[4], const uint32_t b[2],
                           STOWAGE_SITE) {
  emulator::MultiplyAdd<math::HalfToFloat>(d, a, b,
                                           {"MultiplyAddF16", file, line});
}

inline void CopyAsyncZero16(void* shared, const void* global, bool valid) {
  emulator::CheckShared16("CopyAsyncZero16", shared);
  if (valid) emulator::CheckAligned("CopyAsyncZero16", global);
  emulator::CopyAsync(shared, valid ? global : nullptr);
}
inline void CopyAsyncCommit() { emulator::CommitCopies(); }
template <int groups>
void CopyAsyncWait() {
  emulator::AwaitCopies(groups);
}

inline float Exp2(float x) { return ::exp2f(x); }
inline float Reciprocal(float x) { return 1.0f / x; }

inline int NotInAdvance(int x) { return x; }

inline void ReportFault(const FaultSlot& slot) {
  if (slot.launch < *slot.word) *slot.word = slot.launch;
}

}  // namespace stowage::gpu

#undef STOWAGE_SITE

#endif  // STOWAGE_GPU_EMULATOR_SIMT_EMULATED_H_
