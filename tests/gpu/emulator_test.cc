// Kernels written for this test, right ones and wrong ones, in the emulator.

#include "gpu/emulator/emulator.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu/kernels/rows.h"
#include "gpu/simt.h"

namespace stowage::gpu {
namespace {

constexpr uint64_t kSeeds[] = {0, 1, 2, 3};

// Launches at once under one seed; keeps what is reported.
class TestQueue : public EmulatedQueue {
 public:
  explicit TestQueue(uint64_t seed, bool warp_by_warp = false)
      : EmulatedQueue(
            {.seed = seed, .warp_by_warp = warp_by_warp, .report = &report}) {}
  std::string report;
};

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

template <typename T>
struct Out {
  T* out;
};

// --- Indices ---

STOWAGE_KERNEL(64) WriteIds(STOWAGE_PARAMS(Out<int>) p) {
  const int block = BlockIdY() * GridSize() + BlockId();
  const int i = block * BlockSize() + ThreadId();
  p.out[i] += i + 1000 * Warp() + 100 * Lane();
}

TEST_CASE("every thread of every block runs once and knows its place") {
  for (const uint64_t seed : kSeeds) {
    std::vector<int> out(3 * 4 * 64, 0);
    TestQueue queue(seed);
    LaunchKernel(queue, "ids", WriteIds, {out.data()}, {3, 4}, 64);
    CHECK(queue.report.empty());
    CHECK(queue.kernels() == 1);
    for (int i = 0; i < static_cast<int>(out.size()); ++i) {
      REQUIRE(out[static_cast<size_t>(i)] ==
              i + 1000 * (i % 64 / 32) + 100 * (i % 32));
    }
  }
}

STOWAGE_KERNEL(256) AddOne(STOWAGE_PARAMS(Out<float>) p) {
  p.out[BlockId() * BlockSize() + ThreadId()] += 1;
}

TEST_CASE("a million threads that never wait take one fiber") {
  std::vector<float> out(1 << 20, 0.0f);
  TestQueue queue(1);
  LaunchKernel(queue, "add one", AddOne, {out.data()}, {1 << 12}, 256);
  CHECK(out == std::vector<float>(1 << 20, 1.0f));
}

// --- Within a warp ---

struct WarpOut {
  int xor5[32], from7[32];
  double wide[32];
  uint32_t ballot[32];
};

STOWAGE_KERNEL(32) UseWarp(STOWAGE_PARAMS(Out<WarpOut>) p) {
  const int lane = Lane();
  p.out->xor5[lane] = ShuffleXor(lane * 10, 5);
  p.out->from7[lane] = Shuffle(lane * 10, 7);
  p.out->wide[lane] = ShuffleXor(lane * 0.5, 1);
  p.out->ballot[lane] = Ballot(lane % 3 == 0);
  SyncWarp();
}

TEST_CASE("lanes exchange what shuffles and ballots say") {
  for (const uint64_t seed : kSeeds) {
    WarpOut out;
    TestQueue queue(seed);
    LaunchKernel(queue, "warp", UseWarp, {&out}, {}, 32);
    CHECK(queue.report.empty());
    uint32_t thirds = 0;
    for (int i = 0; i < 32; i += 3) thirds |= 1u << i;
    for (int i = 0; i < 32; ++i) {
      CHECK(out.xor5[i] == (i ^ 5) * 10);
      CHECK(out.from7[i] == 70);
      CHECK(out.wide[i] == (i ^ 1) * 0.5);
      CHECK(out.ballot[i] == thirds);
    }
  }
}

// --- Within a block ---

struct ReduceParams {
  const float* x;
  float* sum;
  float* largest;
  int n;
};

STOWAGE_KERNEL(128) Reduce(STOWAGE_PARAMS(ReduceParams) p) {
  STOWAGE_SHARED(float, scratch, kWarpSize);
  float sum = 0;
  float largest = -INFINITY;
  for (int i = ThreadId(); i < p.n; i += BlockSize()) {
    const float x = p.x[BlockId() * p.n + i];
    sum += x;
    largest = Larger(largest, x);
  }
  sum = BlockSum(sum, &scratch[0]);
  largest = BlockMax(largest, &scratch[0]);
  // Overwrites what a warp that is late has yet to read.
  sum += BlockSum(1.0f, &scratch[0]) - static_cast<float>(BlockSize());
  p.sum[BlockId() * BlockSize() + ThreadId()] = sum;
  p.largest[BlockId() * BlockSize() + ThreadId()] = largest;
}

TEST_CASE("block reductions give every thread the same bits under any order") {
  constexpr int kRows = 3, kColumns = 1000;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> x(kRows * kColumns);
  for (float& value : x) value = uniform(random);
  x[kColumns * 2 + 17] = NAN;
  std::vector<float> first;
  for (uint64_t run = 0; run < 8; ++run) {
    std::vector<float> sum(kRows * 128), largest(kRows * 128);
    TestQueue queue(run / 2, run % 2 == 1);  // every other one warp by warp
    LaunchKernel(queue, "reduce", Reduce,
                 {x.data(), sum.data(), largest.data(), kColumns}, {kRows},
                 128);
    CHECK(queue.report.empty());
    for (size_t row = 0; row < 2; ++row) {
      double want = 0, top = -2;
      for (size_t i = 0; i < kColumns; ++i) {
        want += x[row * kColumns + i];
        top = std::max<double>(top, x[row * kColumns + i]);
      }
      for (size_t i = 0; i < 128; ++i) {
        CHECK(sum[row * 128 + i] == doctest::Approx(want).epsilon(1e-4));
        CHECK(sum[row * 128 + i] == sum[row * 128]);
        CHECK(largest[row * 128 + i] == static_cast<float>(top));
      }
    }
    CHECK(std::isnan(sum[2 * 128 + 5]));
    CHECK(std::isnan(largest[2 * 128 + 5]));
    sum.resize(2 * 128);
    if (first.empty()) first = sum;
    CHECK(sum == first);
  }
}

template <bool with_barrier>
STOWAGE_KERNEL(128)
SumOfWarps(STOWAGE_PARAMS(Out<float>) p) {
  STOWAGE_SHARED(float, partial, 4);
  const float sum = WarpSum(static_cast<float>(ThreadId()));
  if (Lane() == 0) partial[Warp()] = sum;
  if (with_barrier) SyncThreads();
  if (ThreadId() == 0) {
    p.out[0] = partial[0] + partial[1] + partial[2] + partial[3];
  }
}

TEST_CASE("a missing barrier is seen under shuffled orders") {
  constexpr float kSum = 127 * 128 / 2;
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    float with = 0, without = 0;
    TestQueue queue(seed);
    LaunchKernel(queue, "with", SumOfWarps<true>, {&with}, {}, 128);
    LaunchKernel(queue, "without", SumOfWarps<false>, {&without}, {}, 128);
    CHECK(with == kSum);
    if (without != kSum) ++wrong;
  }
  CHECK(wrong >= 2);
}

// Every warp reads what its neighbour wrote, and some time later writes again.
template <bool with_barrier>
STOWAGE_KERNEL(256)
ReadThenWrite(STOWAGE_PARAMS(Out<int>) p) {
  STOWAGE_SHARED(int, value, 8);
  int sum = 0;
  for (int round = 0; round < 4; ++round) {
    if (Lane() == 0) value[Warp()] = 10 * round + Warp();
    SyncThreads();
    // Late for a warp that is slow.
    for (int i = 0; i < 4; ++i) SyncWarp();
    sum += value[(Warp() + 1) % 8];
    if (with_barrier) SyncThreads();
    for (int i = 0; i < 32; ++i) SyncWarp();
  }
  p.out[ThreadId()] = sum;
}

TEST_CASE("a warp far ahead of the others is seen warp by warp") {
  const auto is_right = [](auto kernel, uint64_t seed, bool warp_by_warp) {
    std::vector<int> out(256);
    TestQueue queue(seed, warp_by_warp);
    LaunchKernel(queue, "rounds", kernel, {out.data()}, {}, 256);
    CHECK(queue.report.empty());
    bool right = true;
    for (int i = 0; i < 256; ++i) {
      right = right &&
              out[static_cast<size_t>(i)] == 60 + 4 * ((i / kWarpSize + 1) % 8);
    }
    return right;
  };
  for (const uint64_t seed : kSeeds) {
    CHECK(is_right(ReadThenWrite<true>, seed, false));
    CHECK(is_right(ReadThenWrite<true>, seed, true));
    // Thread by thread, all warps read before the first one writes.
    CHECK(is_right(ReadThenWrite<false>, seed, false));
    CHECK_FALSE(is_right(ReadThenWrite<false>, seed, true));
  }
}

STOWAGE_KERNEL(64) SomeReturn(STOWAGE_PARAMS(Out<int>) p) {
  STOWAGE_SHARED(int, value, 64);
  if (ThreadId() >= 40) return;
  value[ThreadId()] = ThreadId();
  SyncThreads();
  p.out[ThreadId()] = value[39 - ThreadId()];
}

TEST_CASE("threads that have returned are not waited for") {
  for (const uint64_t seed : kSeeds) {
    std::vector<int> out(40);
    TestQueue queue(seed);
    LaunchKernel(queue, "some return", SomeReturn, {out.data()}, {}, 64);
    CHECK(queue.report.empty());
    for (int i = 0; i < 40; ++i) CHECK(out[static_cast<size_t>(i)] == 39 - i);
  }
}

STOWAGE_KERNEL(64) AddAtomically(STOWAGE_PARAMS(Out<int>) p) {
  STOWAGE_SHARED(uint32_t, bits, 1);
  if (ThreadId() == 0) bits[0] = 0;
  SyncThreads();
  AtomicAdd(&p.out[0], ThreadId());
  AtomicOr(&bits[0], 1u << (ThreadId() % 8));
  SyncThreads();
  p.out[1] = static_cast<int>(bits[0]);
}

TEST_CASE("atomic operations meet") {
  for (const uint64_t seed : kSeeds) {
    int out[2] = {};
    TestQueue queue(seed);
    LaunchKernel(queue, "atomic", AddAtomically, {out}, {}, 64);
    CHECK(out[0] == 63 * 64 / 2);
    CHECK(out[1] == 255);
  }
}

// --- What is reported ---

STOWAGE_KERNEL(64) Diverge(STOWAGE_PARAMS(Out<int>) p) {
  if (ThreadId() < 32) {
    p.out[0] = 1;
    SyncThreads();
  } else {
    SyncThreads();
  }
}

STOWAGE_KERNEL(64) HalfAWarp(STOWAGE_PARAMS(Out<int>) p) {
  if (Lane() < 16) p.out[0] = ShuffleXor(1, 1);
}

STOWAGE_KERNEL(64) WarpAgainstBlock(STOWAGE_PARAMS(Out<int>) p) {
  if (Lane() < 16) {
    p.out[0] = 1;
    SyncWarp();
  } else {
    SyncThreads();
  }
}

TEST_CASE("threads that wait in different places are reported") {
  for (const uint64_t seed : kSeeds) {
    int out = 0;
    TestQueue queue(seed);
    LaunchKernel(queue, "diverge", Diverge, {&out}, {}, 64);
    CHECK(Contains(queue.report, "kernel \"diverge\""));
    CHECK(Contains(queue.report, "SyncThreads"));
    queue.report.clear();
    LaunchKernel(queue, "half", HalfAWarp, {&out}, {}, 64);
    CHECK(Contains(queue.report, "kernel \"half\""));
    CHECK(Contains(queue.report, "32 in ShuffleXor"));
    CHECK(Contains(queue.report, "32 have returned"));
    queue.report.clear();
    LaunchKernel(queue, "both", WarpAgainstBlock, {&out}, {}, 64);
    CHECK(Contains(queue.report, "32 in SyncWarp"));
    CHECK(Contains(queue.report, "32 in SyncThreads"));
    // What follows runs as if nothing had been.
    queue.report.clear();
    std::vector<int> fine(40);
    LaunchKernel(queue, "some return", SomeReturn, {fine.data()}, {}, 64);
    CHECK(queue.report.empty());
  }
}

STOWAGE_KERNEL(64) IndexTooFar(STOWAGE_PARAMS(Out<int>) p) {
  STOWAGE_SHARED(int, row, 63);
  row[ThreadId()] = 1;
  p.out[0] = row[0];
}

STOWAGE_KERNEL(32) WriteBeside(STOWAGE_PARAMS(Out<int>) p) {
  STOWAGE_SHARED(int, row, 32);
  int* first = &row[0];
  first[Lane() + p.out[0]] = 1;
}

STOWAGE_KERNEL(32) WriteBesideDynamic(STOWAGE_PARAMS(Out<int>) p) {
  DynamicShared<int>()[Lane() + p.out[0]] = 1;
}

STOWAGE_KERNEL(32) LoadMisaligned(STOWAGE_PARAMS(Out<float>) p) {
  StorePack(p.out, LoadPack(p.out + 1));
}

TEST_CASE("accesses outside shared memory and misaligned ones are reported") {
  for (const uint64_t seed : kSeeds) {
    int shift = 0;
    TestQueue queue(seed);
    LaunchKernel(queue, "index", IndexTooFar, {&shift}, {}, 64);
    CHECK(Contains(queue.report, "kernel \"index\", block (0, 0)"));
    CHECK(Contains(queue.report,
                   "index 63 is outside shared array \"row\" of 63"));
    for (const int wrong : {-1, 0, 1}) {
      shift = wrong;
      queue.report.clear();
      LaunchKernel(queue, "beside", WriteBeside, {&shift}, {}, 32);
      CHECK(queue.report.empty() == (wrong == 0));
      queue.report.clear();
      LaunchKernel(queue, "beside", WriteBesideDynamic, {&shift}, {}, 32, 128);
      CHECK(queue.report.empty() == (wrong == 0));
    }
    CHECK(Contains(queue.report, "byte 128 of shared array \"DynamicShared\""));
    alignas(16) float x[8] = {};
    LaunchKernel(queue, "aligned", LoadMisaligned, {x}, {}, 32);
    CHECK(Contains(queue.report, "LoadPack of an address that is 4 bytes"));
  }
}

STOWAGE_KERNEL(32) ReadUnwritten(STOWAGE_PARAMS(Out<float>) p) {
  STOWAGE_SHARED(float, row, 32);
  if (Lane() == 0) p.out[BlockId()] = row[0] + DynamicShared<float>()[0];
  SyncWarp();
  row[Lane()] = 1;
  DynamicShared<float>()[Lane()] = 1;
}

TEST_CASE("shared memory is NaN at the start of every block") {
  float out[3] = {};
  TestQueue queue(0);
  LaunchKernel(queue, "unwritten", ReadUnwritten, {out}, {3}, 32, 128);
  for (const float x : out) CHECK(std::isnan(x));
}

// --- Copies that run on their own ---

struct CopyParams {
  const float* from;
  float* to;
};

// Two stages of 128 floats; `left` groups may be under way when one is read.
template <int left>
STOWAGE_KERNEL(32)
CopyInStages(STOWAGE_PARAMS(CopyParams) p) {
  STOWAGE_SHARED(float, stage, 256);
  const int at = 4 * Lane();
  CopyAsyncZero16(&stage[at], p.from + at, true);
  CopyAsyncCommit();
  for (int i = 0; i < 4; ++i) {
    const int next = (i + 1) * 128 + at;
    CopyAsyncZero16(&stage[(i + 1) % 2 * 128 + at],
                    i < 3 ? p.from + next : p.from, i < 3);
    CopyAsyncCommit();
    CopyAsyncWait<left>();
    SyncThreads();
    for (int k = Lane(); k < 128; k += 32) {
      p.to[i * 128 + k] = stage[i % 2 * 128 + k];
    }
    SyncThreads();
  }
  CopyAsyncWait<0>();
  SyncThreads();
  p.to[512 + Lane()] = stage[Lane()];
}

TEST_CASE("copies arrive at the wait, and a late wait is seen") {
  std::vector<float> from(512);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  std::vector<float> want = from;
  want.resize(544, 0.0f);
  for (const uint64_t seed : kSeeds) {
    std::vector<float> to(544, -1.0f);
    TestQueue queue(seed);
    LaunchKernel(queue, "stages", CopyInStages<1>, {from.data(), to.data()}, {},
                 32);
    CHECK(queue.report.empty());
    CHECK(to == want);
    LaunchKernel(queue, "stages", CopyInStages<2>, {from.data(), to.data()}, {},
                 32);
    CHECK((to == want) == (seed == 0));
  }
}

STOWAGE_KERNEL(32) CopyOutside(STOWAGE_PARAMS(CopyParams) p) {
  STOWAGE_SHARED(float, stage, 126);
  CopyAsyncZero16(&stage[0] + 4 * Lane(), p.from + 4 * Lane(), true);
}

TEST_CASE("a copy outside shared memory is reported") {
  std::vector<float> from(128);
  TestQueue queue(0);
  LaunchKernel(queue, "outside", CopyOutside, {from.data(), nullptr}, {}, 32);
  CHECK(Contains(queue.report, "CopyAsyncZero16 of an address outside"));
}

// --- Tensor cores ---

struct MatrixParams {
  const uint16_t* a;  // (16, 16), row-major
  const uint16_t* b;  // (16, 8), row-major, or its transpose
  float* d;           // (16, 8)
};

// The addresses are those by which lanes name the rows of 8x8 matrices, the
// places of d those of the PTX ISA's figure for mma.m16n8k16.
template <bool half, bool transposed>
STOWAGE_KERNEL(32)
MultiplyOnce(STOWAGE_PARAMS(MatrixParams) p) {
  STOWAGE_SHARED(uint16_t, a, 256);
  STOWAGE_SHARED(uint16_t, b, 256);
  for (int i = Lane(); i < 256; i += 32) {
    a[i] = p.a[i];
    b[i] = i < 128 ? p.b[i] : 0;
  }
  SyncWarp();
  const int lane = Lane();
  uint32_t x[4], y[4];
  LoadMatrix4(x, &a[lane % 16 * 16 + lane / 16 * 8]);
  if (transposed) {
    LoadMatrix4Transposed(y, &b[lane * 8]);
  } else {  // b lies as (8, 16)
    LoadMatrix4(y, &b[lane % 8 * 16 + lane / 8 % 2 * 8]);
  }
  float d[4];
  for (int i = 0; i < 4; ++i) {
    d[i] = p.d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2];
  }
  if (half) {
    MultiplyAddF16(d, x, y);
  } else {
    MultiplyAddBF16(d, x, y);
  }
  for (int i = 0; i < 4; ++i) {
    p.d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
  }
}

template <bool half, bool transposed>
void CheckProduct(uint64_t seed) {
  // Small integers: exact in both types and in every order of summing.
  std::mt19937 random(static_cast<unsigned>(seed));
  std::uniform_int_distribution<int> digit(-8, 8);
  int a[16][16], b[16][8];
  std::vector<uint16_t> a_bits, b_bits(128);
  const auto bits = [](int x) {
    const auto value = static_cast<float>(x);
    return half ? math::FloatToHalf(value) : math::FloatToBFloat16(value);
  };
  for (auto& row : a) {
    for (int& x : row) a_bits.push_back(bits(x = digit(random)));
  }
  for (size_t k = 0; k < 16; ++k) {
    for (size_t n = 0; n < 8; ++n) {
      b[k][n] = digit(random);
      b_bits[transposed ? k * 8 + n : n * 16 + k] = bits(b[k][n]);
    }
  }
  std::vector<float> d(128, 3.0f), want(128, 3.0f);
  for (size_t i = 0; i < 128; ++i) {
    for (size_t k = 0; k < 16; ++k) {
      want[i] += static_cast<float>(a[i / 8][k] * b[k][i % 8]);
    }
  }
  TestQueue queue(seed);
  LaunchKernel(queue, "product", MultiplyOnce<half, transposed>,
               {a_bits.data(), b_bits.data(), d.data()}, {}, 32);
  CHECK(queue.report.empty());
  CHECK(d == want);
}

TEST_CASE("tensor-core fragments are those of the PTX ISA") {
  for (const uint64_t seed : kSeeds) {
    CheckProduct<false, false>(seed);
    CheckProduct<false, true>(seed);
    CheckProduct<true, false>(seed);
    CheckProduct<true, true>(seed);
  }
}

TEST_CASE("two rounded floats are packed with the first in the low half") {
  // 1 + 2^-8 is halfway between 1 and the next bf16: the even one is 1.
  CHECK(PackBF16(1.00390625f, -2.0f) == 0xC0003F80u);
}

// --- The queue ---

STOWAGE_KERNEL(32) Fail(STOWAGE_PARAMS(FaultSlot) slot) {
  if (ThreadId() == 3) ReportFault(slot);
}

TEST_CASE("the first fault is kept") {
  EmulatedQueue queue;
  CHECK(!queue.has_fault());
  for (const uint32_t launch : {9u, 4u, 7u}) {
    queue.set_launch(launch);
    LaunchKernel(queue, "fail", Fail, queue.fault(), {}, 32);
  }
  CHECK(queue.has_fault());
  CHECK(queue.faulty_launch() == 4);
}

TEST_CASE("products honour strides, transposes, batches and accumulation") {
  // c (2, 2) = a (2, 3) b (3, 2), twice, one b for both; a as its transpose.
  const std::vector<float> a = {1, 4, -9, 2, 5, -9, 3, 6,  -9,  // (3, 2) in 3
                                0, 2, -9, 1, 0, -9, 0, -1, -9};
  const std::vector<float> b = {1, 2, 3, 4, 5, 6};
  std::vector<float> c = {1, 1, -7, 1, 1, -7, 2, 2, -7, 2, 2, -7};
  const auto bytes = [](const auto& v) {
    return reinterpret_cast<const std::byte*>(v.data());
  };
  EmulatedQueue queue;
  MatMulCall call;
  call.m = 2, call.n = 2, call.k = 3, call.batch = 2;
  call.a = {bytes(a), 3, 9, true};
  call.b = {bytes(b), 2, 0, false};
  call.c = reinterpret_cast<std::byte*>(c.data());
  call.c_stride = 3, call.c_batch_stride = 6;
  call.accumulate = true;
  queue.MatMul(call);
  // (1 2 3; 4 5 6) b = (22 28; 49 64), (0 1 0; 2 0 -1) b = (3 4; -3 -2).
  CHECK(c == std::vector<float>{23, 29, -7, 50, 65, -7, 5, 6, -7, -1, 0, -7});
  call.accumulate = false;
  queue.MatMul(call);
  CHECK(c == std::vector<float>{22, 28, -7, 49, 64, -7, 3, 4, -7, -3, -2, -7});
  CHECK(queue.products() == 2);
}

TEST_CASE("products of bf16 are rounded once") {
  // 256 + 1 + 1 is 258 when summed exactly; 257 would round to 256 each time.
  const std::vector<uint16_t> a = {math::FloatToBFloat16(256), 0x3F80, 0x3F80};
  const std::vector<uint16_t> b(3, 0x3F80);
  uint16_t c = 0;
  EmulatedQueue queue;
  MatMulCall call;
  call.dtype = DType::kBF16;
  call.m = 1, call.n = 1, call.k = 3;
  call.a = {reinterpret_cast<const std::byte*>(a.data()), 3, 0, false};
  call.b = {reinterpret_cast<const std::byte*>(b.data()), 3, 0, true};
  call.c = reinterpret_cast<std::byte*>(&c);
  call.c_stride = 1;
  queue.MatMul(call);
  CHECK(math::BFloat16ToFloat(c) == 258);
}

TEST_CASE("fills and copies happen at once") {
  std::vector<std::byte> x(8), y(8);
  EmulatedQueue queue;
  queue.Fill(x.data(), 0x5A, 8);
  queue.Copy(y.data(), x.data(), 8);
  CHECK(y == std::vector<std::byte>(8, std::byte{0x5A}));
}

}  // namespace
}  // namespace stowage::gpu
