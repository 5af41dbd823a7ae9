// Products of warpgroups in the emulator: against plain loops, and what is wrong with
// kernels that do not keep their rules.

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gpu/emulator/emulator.h"
#include "gpu/simt.h"
#include "gpu/warpgroup.h"
#include "math/small_floats.h"

namespace stowage::gpu {
namespace {

class TestQueue : public EmulatedQueue {
 public:
  explicit TestQueue(uint64_t seed, bool warp_by_warp = false)
      : EmulatedQueue(
            {.seed = seed, .warp_by_warp = warp_by_warp, .report = &report}) {}
  std::string report;
};

// Row-major matrices: a (64, depth); b (columns, depth) where rows are the product's
// columns, else (depth, columns); d (64, columns).
struct Matrices {
  const uint16_t *a, *b;
  float* d;
};

// Where an element of a tile of `rows` rows lies, in elements: panels of one row of
// bytes, whose chunks of 16 bytes are exchanged by the number of the 128-byte line, as
// the figures of the PTX ISA show it for tiles at multiples of 1,024 bytes.
constexpr int PlaceOf(int rows, int row_bytes, int row, int column) {
  const int width = row_bytes / 2;
  const int in_panel = row * row_bytes + column % width * 2;
  const int line = in_panel / 128;
  const int chunk = in_panel / 16 % (row_bytes / 16);
  const int turned = chunk ^ line % (row_bytes / 16);
  return (column / width * rows * row_bytes + row * row_bytes + turned * 16 +
          in_panel % 16) /
         2;
}

template <typename T, RightFactor right, int n, int kRowBytes,
          bool kInRegisters>
STOWAGE_KERNEL(kWarpgroupSize)
Multiply(STOWAGE_PARAMS(Matrices) p) {
  constexpr int kDepth = kRowBytes / 2;
  constexpr int kColumns = 8 * n;
  constexpr int kTileOfA = 64 * kDepth;
  auto* shared = SwizzledShared<uint16_t>();
  for (int i = ThreadId(); i < 64 * kDepth; i += BlockSize()) {
    shared[PlaceOf(64, kRowBytes, i / kDepth, i % kDepth)] = p.a[i];
  }
  constexpr bool kRows = right == kRowsOfB;
  constexpr int kRowsOfTile = kRows ? kColumns : kDepth;
  constexpr int kRowOfTile = kRows ? kDepth : kColumns;
  for (int i = ThreadId(); i < kColumns * kDepth; i += BlockSize()) {
    shared[kTileOfA + PlaceOf(kRowsOfTile, kRowBytes, i / kRowOfTile,
                              i % kRowOfTile)] = p.b[i];
  }
  ProxyFence();
  SyncThreads();
  const auto a = DescribeTile<kRowBytes>(SharedByte(shared), 0);
  const auto b = DescribeTile<kRowBytes>(SharedByte(shared + kTileOfA),
                                         kRowsOfTile * kRowBytes);
  uint32_t left[kDepth / 16][4];
  for (int k = 0; k < kDepth / 16; ++k) {
    for (int i = 0; i < 4; ++i) {
      const int row = Warp() * 16 + Lane() / 4 + i % 2 * 8;
      const int column = k * 16 + Lane() % 4 * 2 + i / 2 * 8;
      const uint16_t* two = p.a + row * kDepth + column;
      left[k][i] = two[0] | static_cast<uint32_t>(two[1]) << 16;
    }
  }
  float d[n][4];
  for (auto& four : d) {
    for (float& x : four)
      x = 1000;  // what the first product takes no notice of
  }
  WarpgroupFence(d, left);
  for (int k = 0; k < kDepth / 16; ++k) {
    const auto b_k = b.Plus(kRows ? 32 * k : 16 * kRowBytes * k);
    if (kInRegisters) {
      WarpgroupMultiply<T, right>(d, left[k], b_k, k > 0);
    } else {
      WarpgroupMultiply<T, right>(d, a.Plus(32 * k), b_k, k > 0);
    }
    if (k == 0) WarpgroupCommit();  // the sums of two groups
  }
  WarpgroupCommit();
  WarpgroupWait<0>(d, left);
  for (int i = 0; i < n; ++i) {
    for (int e = 0; e < 4; ++e) {
      const int row = Warp() * 16 + Lane() / 4 + e / 2 * 8;
      const int column = i * 8 + Lane() % 4 * 2 + e % 2;
      p.d[row * kColumns + column] = d[i][e];
    }
  }
}

// Of integers, so that nothing is rounded.
template <typename T, RightFactor right, int n, int kRowBytes,
          bool kInRegisters>
void CheckProduct() {
  constexpr size_t kDepth = kRowBytes / 2, kColumns = 8 * n;
  std::mt19937 random(5);
  std::vector<float> a(64 * kDepth), b(kColumns * kDepth);
  const auto bits_of = [&](std::vector<float>& values) {
    std::vector<uint16_t> bits;
    for (float& x : values) {
      x = static_cast<float>(random() % 17) - 8;
      bits.push_back(FromFloat<T>(x).bits);
    }
    return bits;
  };
  const std::vector<uint16_t> a_bits = bits_of(a), b_bits = bits_of(b);
  std::vector<float> expected(64 * kColumns);
  for (size_t i = 0; i < 64; ++i) {
    for (size_t j = 0; j < kColumns; ++j) {
      for (size_t k = 0; k < kDepth; ++k) {
        expected[i * kColumns + j] +=
            a[i * kDepth + k] *
            (right == kRowsOfB ? b[j * kDepth + k] : b[k * kColumns + j]);
      }
    }
  }
  CAPTURE(n);
  CAPTURE(kRowBytes);
  CAPTURE(kInRegisters);
  for (const bool warp_by_warp : {false, true}) {
    for (const uint64_t seed : {0, 1, 2}) {
      std::vector<float> d(expected.size());
      TestQueue queue(seed, warp_by_warp);
      LaunchKernel(
          queue, "multiply", Multiply<T, right, n, kRowBytes, kInRegisters>,
          {a_bits.data(), b_bits.data(), d.data()}, {1}, kWarpgroupSize,
          (64 + (8 * n + 63) / 64 * 64) * kRowBytes + 8 * n * 128);
      REQUIRE(queue.report == "");
      CHECK(d == expected);
    }
  }
}

template <typename T, int kRowBytes>
void CheckProducts() {
  CheckProduct<T, kRowsOfB, 4, kRowBytes, false>();
  CheckProduct<T, kRowsOfB, 8, kRowBytes, true>();
  CheckProduct<T, kRowsOfB, 16, kRowBytes, false>();
  CheckProduct<T, kColumnsOfB, 4, kRowBytes, true>();
  CheckProduct<T, kColumnsOfB, 8, kRowBytes, false>();
  CheckProduct<T, kColumnsOfB, 16, kRowBytes, true>();
}

TEST_CASE("products of warpgroups are those of plain loops") {
  CheckProducts<BF16, 128>();
  CheckProducts<BF16, 64>();
  CheckProducts<F16, 128>();
}

// --- Rules ---

enum class Broken {
  kNothing,
  kNoFence,
  kEarlyWait,
  kChangedSums,
  kTouchedSums,
  kChangedFactor,
  kOverwritten,
  kNoProxyFence,
  kStoredSince,
  kAnotherTile,
  kAnotherGroup,
  kFenceUnderWay,
  kBaseOffset,
  kSwizzle,
  kBeyond,
  kAlone,
};
struct Rules {
  const uint16_t* zeros;  // 16-byte aligned, 64 x 64
  Broken broken;
};

STOWAGE_KERNEL(kWarpgroupSize) KeepRules(STOWAGE_PARAMS(Rules) p) {
  auto* shared = SwizzledShared<uint16_t>();
  const auto load = [&] {
    for (int i = ThreadId() * 8; i < 64 * 64; i += BlockSize() * 8) {
      CopyAsyncZero16(shared + i, p.zeros + i, true);
    }
    CopyAsyncCommit();
    CopyAsyncWait<0>();
  };
  const auto is = [&](Broken broken) { return p.broken == broken; };
  load();
  if (!is(Broken::kNoProxyFence)) ProxyFence();
  SyncThreads();
  if (is(Broken::kStoredSince) && ThreadId() == 9) {
    StorePack(shared, Pack<uint16_t>{});
  }
  TileDescriptor tile = DescribeTile<128>(SharedByte(shared), 0);
  if (is(Broken::kAnotherTile) && Warp() == 2) tile = tile.Plus(32);
  if (is(Broken::kBaseOffset)) tile.bits |= uint64_t{1} << 49;
  if (is(Broken::kSwizzle)) tile.bits |= uint64_t{3} << 62;
  if (is(Broken::kBeyond)) tile = tile.Plus(64 * 128);
  float d[8][4] = {};
  uint32_t left[1][4] = {};
  if (is(Broken::kAlone) && Warp() == 3) return;
  if (!is(Broken::kNoFence)) WarpgroupFence(d, left);
  if (is(Broken::kChangedSums)) d[3][2] = ThreadId() == 5 ? 1 : 0;
  if (is(Broken::kAnotherGroup) && Warp() == 1) WarpgroupCommit();
  WarpgroupMultiply<BF16, kRowsOfB>(d, left[0], tile, false);
  WarpgroupCommit();
  if (is(Broken::kTouchedSums)) d[0][0] = 0;
  if (is(Broken::kFenceUnderWay)) WarpgroupFence(d);
  if (is(Broken::kChangedFactor) && Lane() == 7) left[0][1] = 0x3F803F80;
  if (is(Broken::kOverwritten) && ThreadId() == 0) shared[0] = 0x3F80;
  WarpgroupMultiply<BF16, kRowsOfB>(d, left[0], tile, true);
  WarpgroupCommit();
  if (is(Broken::kEarlyWait)) {
    WarpgroupWait<1>(d);
  } else {
    WarpgroupWait<0>(d, left);
  }
}

std::string ReportOn(Broken broken) {
  alignas(16) static constexpr uint16_t kZeros[64 * 64] = {};
  TestQueue queue(3);
  LaunchKernel(queue, "rules", KeepRules, {kZeros, broken}, {1}, kWarpgroupSize,
               64 * 128);
  return queue.report;
}

TEST_CASE("a kernel that breaks a rule of products is reported") {
  CHECK(ReportOn(Broken::kNothing) == "");
  const auto finds = [](Broken broken, const char* what) {
    const std::string report = ReportOn(broken);
    INFO(report);
    CHECK(report.find(what) != std::string::npos);
  };
  finds(Broken::kNoFence, "a product's sums are behind no WarpgroupFence");
  finds(Broken::kEarlyWait,
        "WarpgroupWait names an array that a product still uses");
  finds(Broken::kChangedSums,
        "a product's sums were changed behind the WarpgroupFence");
  finds(Broken::kTouchedSums,
        "a product's sums were changed behind the WarpgroupFence");
  finds(Broken::kChangedFactor,
        "a product's left factor was changed behind the WarpgroupFence");
  finds(Broken::kOverwritten,
        "what a product reads was changed while it was under way");
  finds(Broken::kNoProxyFence,
        "which a thread has written without a ProxyFence since");
  finds(Broken::kStoredSince,
        "which a thread has written without a ProxyFence since");
  finds(Broken::kAnotherTile,
        "threads of a warpgroup issue a product of different tiles");
  finds(Broken::kAnotherGroup,
        "threads of a warpgroup have committed different groups");
  finds(Broken::kFenceUnderWay,
        "WarpgroupFence names an array that a product uses");
  finds(Broken::kBaseOffset, "a tile's base offset is 1; expected 0");
  finds(Broken::kSwizzle, "a tile's swizzle is number 3; expected 1 or 2");
  finds(Broken::kBeyond, "a product reads byte 8192 of the 8192");
  finds(Broken::kAlone, "threads wait for others that do not come");
}

// Sums are not there before the wait that names them.
struct Seen {
  float* seen;
};
STOWAGE_KERNEL(kWarpgroupSize) ReadEarly(STOWAGE_PARAMS(Seen) p) {
  auto* shared = SwizzledShared<uint16_t>();
  for (int i = ThreadId(); i < 64 * 64; i += BlockSize()) shared[i] = 0;
  SyncThreads();
  const auto tile = DescribeTile<128>(SharedByte(shared), 0);
  float d[8][4] = {};
  WarpgroupFence(d);
  WarpgroupMultiply<BF16, kRowsOfB>(d, tile, tile, false);
  WarpgroupCommit();
  p.seen[ThreadId()] = d[1][1];
  WarpgroupWait<0>();
  p.seen[ThreadId() + 128] = d[1][1];
  WarpgroupWait<0>(d);
  p.seen[ThreadId() + 256] = d[1][1];
}

TEST_CASE("sums are NaN up to the wait that names them") {
  std::vector<float> seen(3 * 128);
  TestQueue queue(0);
  LaunchKernel(queue, "early", ReadEarly, {seen.data()}, {1}, kWarpgroupSize,
               64 * 128);
  REQUIRE(queue.report == "");
  for (size_t i = 0; i < 128; ++i) {
    CHECK(seen[i] != seen[i]);
    CHECK(seen[i + 128] != seen[i + 128]);
    CHECK(seen[i + 256] == 0);
  }
}

}  // namespace
}  // namespace stowage::gpu
