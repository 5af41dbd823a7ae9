// Bulk copies in the emulator: where the elements of a box arrive, and what is wrong with
// kernels that do not keep the rules.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/emulator/emulator.h"
#include "gpu/simt.h"
#include "gpu/tensor_map.h"
#include "gpu/warpgroup.h"

namespace stowage::gpu {
namespace {

class TestQueue : public EmulatedQueue {
 public:
  explicit TestQueue(uint64_t seed, bool warp_by_warp = false)
      : EmulatedQueue(
            {.seed = seed, .warp_by_warp = warp_by_warp, .report = &report}) {}
  std::string report;
};

constexpr uint32_t kThreads = 128;
constexpr int kBoxRows = 16;

// --- Where elements arrive ---

// 2 entries of 5 rows of 3 heads of 24 elements, with gaps of 8 elements between heads and
// of 16 between rows: element (entry, row, head, column) holds 1 and its place.
constexpr int kColumns = 24, kHeads = 3, kRows = 5, kEntries = 2;
constexpr int kHeadStep = 32, kRowStep = 112, kEntryStep = 560;

struct Array {
  Array() {
    for (size_t i = 0; i < kEntries * kEntryStep; ++i) {
      elements[i] = static_cast<uint16_t>(i + 1);
    }
  }
  TensorMapSpec Spec(int row_bytes, int swizzle) const {
    return {.data = elements,
            .element_bytes = 2,
            .rank = 4,
            .sizes = {kColumns, kHeads, kRows, kEntries},
            .steps = {2, 2 * kHeadStep, 2 * kRowStep, 2 * kEntryStep},
            .box = {row_bytes / 2, 1, kBoxRows, 1},
            .swizzle = swizzle};
  }
  alignas(16) uint16_t elements[kEntries * kEntryStep];
};

struct CopyParams {
  TensorMap map;
  BoxStart start;
  int bytes;
  uint16_t* early;  // what one thread finds before it waits
  uint16_t* found;
};
STOWAGE_KERNEL(kThreads) CopyOneBox(STOWAGE_PARAMS(CopyParams) p) {
  auto* shared = SwizzledShared<uint16_t>();
  auto* barrier = reinterpret_cast<CopyBarrier*>(shared + p.bytes / 2);
  if (ThreadId() == 0) {
    InitBarrier(barrier);
    ProxyFence();
    ExpectBytes(barrier, p.bytes);
    CopyBox(shared, p.map, p.start, barrier);
    *p.early = shared[0];
  }
  SyncThreads();
  AwaitBytes(barrier, 0);
  for (int i = ThreadId(); i < p.bytes / 2; i += BlockSize()) {
    p.found[i] = shared[i];
  }
}

// Where chunk `chunk` of row `row` of a box lies, by the figures of the PTX ISA, which
// number the rows of a pattern: 8 of 128 bytes, 4 pairs of 64, or 2 fours of 32.
int ChunkAt(int swizzle, int row, int chunk) {
  switch (swizzle) {
    case 128:
      return chunk ^ row % 8;
    case 64:
      return chunk ^ row / 2 % 4;
    case 32:
      return chunk ^ row / 4 % 2;
    default:
      return chunk;
  }
}

void CheckBox(int row_bytes, int swizzle, const BoxStart& start, uint64_t seed,
              bool warp_by_warp) {
  CAPTURE(swizzle);
  CAPTURE(seed);
  const Array array;
  const int width = row_bytes / 2;
  std::vector<uint16_t> expected(static_cast<size_t>(kBoxRows * width));
  for (int row = 0; row < kBoxRows; ++row) {
    for (int column = 0; column < width; ++column) {
      const int at[4] = {start.at[0] + column, start.at[1], start.at[2] + row,
                         start.at[3]};
      const bool is_in = at[0] >= 0 && at[0] < kColumns && at[1] >= 0 &&
                         at[1] < kHeads && at[2] >= 0 && at[2] < kRows &&
                         at[3] >= 0 && at[3] < kEntries;
      const int to =
          row * width + ChunkAt(swizzle, row, column / 8) * 8 + column % 8;
      expected[static_cast<size_t>(to)] = static_cast<uint16_t>(
          is_in ? 1 + at[0] + at[1] * kHeadStep + at[2] * kRowStep +
                      at[3] * kEntryStep
                : 0);
    }
  }
  std::vector<uint16_t> found(expected.size());
  uint16_t early = 0;
  TestQueue queue(seed, warp_by_warp);
  const int bytes = kBoxRows * row_bytes;
  LaunchKernel(queue, "copy", CopyOneBox,
               {queue.Encode(array.Spec(row_bytes, swizzle)), start, bytes,
                &early, found.data()},
               {1}, kThreads, static_cast<uint32_t>(bytes) + 8);
  REQUIRE(queue.report == "");
  CHECK(found == expected);
  CHECK((early == 0xFFFF) == (seed != 0));
}

TEST_CASE("a box arrives in its pattern, with zeros beyond the array") {
  for (const uint64_t seed : {0, 1, 2}) {
    for (const bool warp_by_warp : {false, true}) {
      CheckBox(128, 128, {{0, 2, 0, 1}}, seed, warp_by_warp);
      CheckBox(128, 128, {{16, 0, 3, 0}}, seed, warp_by_warp);
      CheckBox(64, 64, {{0, 1, 0, 0}}, seed, warp_by_warp);
      CheckBox(64, 64, {{-5, 1, -2, 1}}, seed, warp_by_warp);
      CheckBox(32, 32, {{8, 2, 1, 0}}, seed, warp_by_warp);
      CheckBox(48, 0, {{0, 0, 0, 1}}, seed, warp_by_warp);
      CheckBox(64, 64, {{0, -1, 0, 0}}, seed, warp_by_warp);
      CheckBox(64, 64, {{0, 0, 0, 2}}, seed, warp_by_warp);
    }
  }
}

// By hand: element 9 of row 3 is in chunk 1, which lies where chunk 2 would, 3 rows of 64
// elements and 2 chunks of 8 from the start, and one more.
TEST_CASE("chunk 1 of row 3 lies where its chunk 2 would") {
  const Array array;
  std::vector<uint16_t> found(kBoxRows * 64);
  uint16_t early = 0;
  TestQueue queue(1);
  LaunchKernel(queue, "copy", CopyOneBox,
               {queue.Encode(array.Spec(128, 128)),
                {{0, 0, 0, 0}},
                kBoxRows * 128,
                &early,
                found.data()},
               {1}, kThreads, kBoxRows * 128 + 8);
  REQUIRE(queue.report == "");
  CHECK(found[3 * 64 + 2 * 8 + 1] == 1 + 3 * 112 + 9);
}

// --- Phases ---

// The same box over and over, of one row further on each time.
struct RingParams {
  TensorMap map;
  int copies;
  uint16_t* found;  // the first element of each
};
STOWAGE_KERNEL(kThreads) CopyInTurns(STOWAGE_PARAMS(RingParams) p) {
  constexpr int kBytes = kBoxRows * 128;
  auto* shared = SwizzledShared<uint16_t>();
  auto* barriers = reinterpret_cast<CopyBarrier*>(shared + kBytes);
  const auto copy = [&](int i) {
    ExpectBytes(barriers + i % 2, kBytes);
    CopyBox(shared + i % 2 * kBytes / 2, p.map, {{0, 0, i, 0}},
            barriers + i % 2);
  };
  if (ThreadId() == 0) {
    InitBarrier(barriers);
    InitBarrier(barriers + 1);
    ProxyFence();
    copy(0);
  }
  SyncThreads();
  for (int i = 0; i < p.copies; ++i) {
    if (ThreadId() == 0 && i + 1 < p.copies) copy(i + 1);
    AwaitBytes(barriers + i % 2, i / 2 % 2);
    if (ThreadId() == 77) p.found[i] = shared[i % 2 * kBytes / 2];
    SyncThreads();
  }
}

TEST_CASE("the phases of a barrier follow one another") {
  const Array array;
  for (const uint64_t seed : {0, 1, 2, 3}) {
    std::vector<uint16_t> found(5);
    TestQueue queue(seed);
    LaunchKernel(queue, "ring", CopyInTurns,
                 {queue.Encode(array.Spec(128, 128)), 5, found.data()}, {1},
                 kThreads, 2 * kBoxRows * 128 + 16);
    REQUIRE(queue.report == "");
    CHECK(found == std::vector<uint16_t>{1, 113, 225, 337, 449});
  }
}

// --- Rules ---

enum class Broken {
  kNothing,
  kSeenBehindSync,
  kNoInit,
  kInitTwice,
  kInitBeyond,
  kNoInitFence,
  kAnothersFence,
  kNoInitSync,
  kBarrierWritten,
  kNoExpect,
  kExpectTwice,
  kExpectLittle,
  kExpectLittleLate,
  kExpectMuch,
  kExpectTooMuch,
  kNoWait,
  kWrongParity,
  kNoParity,
  kOneWaits,
  kNoWaitBeforeProduct,
  kEnds,
  kOffPattern,
  kBeyond,
  kNoMap,
  kAnotherRank,
  kTwice,
  kStoredBefore,
  kTooEarly,
  kLate,
  kLateWait,
};
struct Rules {
  TensorMap map, of_rank_two;
  Broken broken;
};

STOWAGE_KERNEL(kThreads) KeepRules(STOWAGE_PARAMS(Rules) p) {
  constexpr int kBytes = 64 * 128;
  auto* shared = SwizzledShared<uint16_t>();
  auto* barrier = reinterpret_cast<CopyBarrier*>(shared + kBytes / 2 + 512);
  const auto is = [&](Broken broken) { return p.broken == broken; };
  const auto copy = [&](int to) {
    CopyBox(shared + to,
            is(Broken::kAnotherRank) ? p.of_rank_two
            : is(Broken::kNoMap)     ? TensorMap{}
                                     : p.map,
            {{0, 0, 0, 0}}, barrier);
  };
  if (is(Broken::kAnothersFence)) {
    if (ThreadId() == 0) InitBarrier(barrier);
    SyncThreads();
    if (ThreadId() == 1) ProxyFence();
    SyncThreads();
  }
  if (ThreadId() == 0) {
    if (!is(Broken::kNoInit) && !is(Broken::kAnothersFence)) {
      InitBarrier(barrier);
    }
    if (is(Broken::kInitTwice)) InitBarrier(barrier);
    if (is(Broken::kInitBeyond)) InitBarrier(barrier + 1);
    if (!is(Broken::kNoInitFence) && !is(Broken::kAnothersFence)) ProxyFence();
    if (is(Broken::kStoredBefore)) StorePack(shared + 8, Pack<uint16_t>{});
    if (is(Broken::kBarrierWritten)) barrier->bits = 0;
    if (is(Broken::kExpectLittleLate)) copy(0);
    if (!is(Broken::kNoExpect)) {
      ExpectBytes(barrier,
                  is(Broken::kExpectLittle) || is(Broken::kExpectLittleLate)
                      ? kBytes - 16
                  : is(Broken::kExpectMuch)    ? kBytes + 16
                  : is(Broken::kExpectTooMuch) ? 1 << 20
                                               : kBytes);
    }
    if (is(Broken::kExpectTwice)) ExpectBytes(barrier, kBytes);
    copy(is(Broken::kOffPattern) ? 64 : is(Broken::kBeyond) ? 1024 : 0);
    if (is(Broken::kTwice)) copy(0);
  }
  if (is(Broken::kEnds)) return;
  if (!is(Broken::kNoInitSync)) SyncThreads();
  const bool waits =
      is(Broken::kOneWaits) || is(Broken::kSeenBehindSync)
          ? Warp() == 0
          : !is(Broken::kNoWait) &&
                !(is(Broken::kNoWaitBeforeProduct) && Warp() == 1);
  if (waits) {
    AwaitBytes(barrier, is(Broken::kWrongParity) ? 1
                        : is(Broken::kNoParity)  ? 2
                                                 : 0);
  }
  // In the natural order the last to come to a SyncThreads goes on first.
  if (is(Broken::kLateWait) && ThreadId() == kThreads - 1) {
    ExpectBytes(barrier, kBytes);
  }
  if (is(Broken::kSeenBehindSync)) SyncThreads();
  const auto tile = DescribeTile<128>(SharedByte(shared), 0);
  float d[8][4] = {};
  uint32_t left[1][4] = {};
  if (!is(Broken::kNoWaitBeforeProduct)) {
    LoadMatrix4(left[0], shared + (Warp() * 16 + Lane() % 16) * 64);
  }
  WarpgroupFence(d, left);
  WarpgroupMultiply<BF16, kRowsOfB>(d, left[0], tile, false);
  WarpgroupCommit();
  if (is(Broken::kTooEarly)) SyncThreads();
  if ((is(Broken::kTooEarly) || is(Broken::kLate)) && ThreadId() == 0) {
    ExpectBytes(barrier, kBytes);
    copy(0);
  }
  SyncThreads();
  WarpgroupWait<0>(d, left);
}

std::string ReportOn(Broken broken, uint64_t seed) {
  alignas(16) static constexpr uint16_t kZeros[64 * 64] = {};
  TestQueue queue(seed);
  const TensorMapSpec spec = {.data = kZeros,
                              .element_bytes = 2,
                              .rank = 4,
                              .sizes = {64, 1, 60, 1},
                              .steps = {2, 128, 128, 7680},
                              .box = {64, 1, 64, 1},
                              .swizzle = 128};
  const TensorMapSpec of_rank_two = {.data = kZeros,
                                     .element_bytes = 2,
                                     .rank = 2,
                                     .sizes = {64, 60},
                                     .steps = {2, 128},
                                     .box = {64, 64},
                                     .swizzle = 128};
  LaunchKernel(queue, "rules", KeepRules,
               {queue.Encode(spec), queue.Encode(of_rank_two), broken}, {1},
               kThreads, 64 * 128 + 1024 + 8);
  return queue.report;
}

TEST_CASE("a kernel that breaks a rule of bulk copies is reported") {
  for (const uint64_t seed : {0, 3}) {
    CAPTURE(seed);
    CHECK(ReportOn(Broken::kNothing, seed) == "");
    CHECK(ReportOn(Broken::kSeenBehindSync, seed) == "");
    const auto finds = [seed](Broken broken, const char* what) {
      const std::string report = ReportOn(broken, seed);
      INFO(report);
      INFO(what);
      CHECK(report.find(what) != std::string::npos);
    };
    finds(Broken::kNoInit, "of a barrier that was not initialized");
    finds(Broken::kInitTwice,
          "InitBarrier of a barrier that was initialized before");
    finds(Broken::kInitBeyond, "InitBarrier of byte 9224 of the 9224");
    finds(Broken::kNoInitFence,
          "CopyBox with a barrier that was initialized without a ProxyFence "
          "since");
    finds(Broken::kAnothersFence,
          "CopyBox with a barrier that was initialized without a ProxyFence "
          "since");
    finds(Broken::kBarrierWritten,
          "ExpectBytes: the barrier at byte 9216 was written over");
    finds(Broken::kNoExpect,
          "the barrier at byte 9216 has ended 0 phases, and of the next one no "
          "bytes are expected");
    finds(Broken::kExpectTwice, "ExpectBytes twice in a phase");
    finds(Broken::kExpectLittle,
          "is to expect 8176 bytes in a phase whose copies bring 8192");
    finds(Broken::kExpectLittleLate,
          "is to expect 8176 bytes in a phase whose copies bring 8192");
    finds(Broken::kExpectMuch, "8192 of 8208 bytes are under way");
    finds(Broken::kExpectTooMuch,
          "ExpectBytes of 1048576; expected fewer than 1048576");
    finds(Broken::kNoWait, "LoadMatrix4 of byte ");
    finds(Broken::kNoWait,
          "which a copy writes that this thread has not waited for");
    finds(Broken::kWrongParity,
          "which a copy writes that this thread has not waited for");
    finds(Broken::kNoParity, "AwaitBytes of a phase 2; expected 0 or 1");
    finds(Broken::kOneWaits,
          "which a copy writes that this thread has not waited for");
    finds(Broken::kNoWaitBeforeProduct,
          "which a copy writes that not all of its threads have waited for");
    finds(Broken::kEnds, "it ends while copies of 8192 bytes are under way");
    finds(Broken::kOffPattern,
          "CopyBox to byte 128 of shared memory; expected a multiple of 1024");
    finds(Broken::kBeyond, "CopyBox of 8192 bytes to byte 2048 of the 9224");
    finds(Broken::kNoMap, "CopyBox of what is no tensor map");
    finds(Broken::kAnotherRank, "CopyBox of an array of rank 2; expected 4");
    finds(Broken::kTwice, "which another copy under way writes");
    for (const Broken late : {Broken::kLate, Broken::kLateWait}) {
      finds(late, "waits for phase 0 of the barrier at byte 9216, and thread ");
      finds(late,
            " expects bytes of the next one without a SyncThreads in between");
    }
    finds(Broken::kStoredBefore,
          "CopyBox to byte 16 of shared memory, which a thread has written "
          "without a ProxyFence since");
  }
  // In another order a thread may come before thread 0.
  CHECK(ReportOn(Broken::kNoInitSync, 0)
            .find("of a barrier that thread 0 has initialized without a "
                  "SyncThreads since") != std::string::npos);
  // In the natural order zeros are copied over zeros.
  CHECK(ReportOn(Broken::kTooEarly, 3)
            .find("what a product reads was changed while it was under way") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage::gpu
