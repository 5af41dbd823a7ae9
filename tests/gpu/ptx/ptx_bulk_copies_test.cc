// Bulk copies in the interpreter of PTX, on kernels written by hand: which element is where.

#include "tests/gpu/ptx/ptx_bulk_copies.h"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gpu/emulator/warpgroup.h"
#include "gpu/tensor_map.h"
#include "tests/gpu/ptx/ptx_machine.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_numbers.h"
#include "tests/gpu/ptx/written_kernel.h"

namespace stowage::testing::ptx {
namespace {

// 16-bit elements, each another from those around it, none of them 0.
std::vector<uint64_t> Numbers(size_t bytes) {
  std::vector<uint16_t> elements(bytes / 2);
  for (size_t i = 0; i < elements.size(); ++i) {
    elements[i] = static_cast<uint16_t>(i * 40503 % 65521 + 1);
  }
  std::vector<uint64_t> words(bytes / 8);
  std::memcpy(words.data(), elements.data(), bytes);
  return words;
}

gpu::TensorMap Encode(const gpu::TensorMapSpec& spec) {
  const auto map = gpu::emulator::EncodeTensorMap(spec);
  REQUIRE(map);
  return *map;
}

// The chunks of 16 bytes in lines of 128 bytes, as the ISA draws the swizzle of 128
// bytes. That of 64 bytes repeats the first four lines, that of 32 the first two.
constexpr const char* kLines[] = {"01234567", "10325476", "23016745",
                                  "32107654", "45670123", "54761032",
                                  "67452301", "76543210"};

// Where in shared memory the chunk of this number is, of a box that begins at `to`.
size_t PlaceOfChunk(size_t to, size_t chunk, int swizzle) {
  const size_t at = to / 16 + chunk, line = at / 8, column = at % 8;
  if (swizzle == 0) return at * 16;
  const char* const drawn = kLines[line % static_cast<size_t>(swizzle / 16)];
  return (line * 8 + static_cast<size_t>(drawn[column] - '0')) * 16;
}

struct Case {
  gpu::TensorMapSpec spec;
  std::vector<int> first;
};

// What the box is, by plain loops over five dimensions.
std::vector<uint16_t> Expected(const Case& c, size_t to,
                               const std::vector<uint64_t>& in) {
  std::array<int, 5> box = {1, 1, 1, 1, 1}, first = {};
  std::array<int64_t, 5> sizes = {1, 1, 1, 1, 1};
  size_t elements = 1;
  for (size_t i = 0; i < c.first.size(); ++i) {
    box[i] = c.spec.box[i];
    first[i] = c.first[i];
    sizes[i] = c.spec.sizes[i];
    elements *= static_cast<size_t>(box[i]);
  }
  std::vector<uint16_t> expected(elements);
  size_t next = 0;
  std::array<int, 5> i;
  for (i[4] = 0; i[4] < box[4]; ++i[4]) {
    for (i[3] = 0; i[3] < box[3]; ++i[3]) {
      for (i[2] = 0; i[2] < box[2]; ++i[2]) {
        for (i[1] = 0; i[1] < box[1]; ++i[1]) {
          for (i[0] = 0; i[0] < box[0]; ++i[0], ++next) {
            int64_t from = 0;
            bool is_inside = true;
            for (size_t d = 0; d < 5; ++d) {
              const int64_t at = int64_t{first[d]} + i[d];
              is_inside &= at >= 0 && at < sizes[d];
              from += at * c.spec.steps[d];
            }
            uint16_t element = 0;
            if (is_inside) {
              std::memcpy(&element,
                          reinterpret_cast<const std::byte*>(in.data()) + from,
                          2);
            }
            const size_t place =
                PlaceOfChunk(to, next * 2 / 16, c.spec.swizzle) - to;
            expected[place / 2 + next % 8] = element;
          }
        }
      }
    }
  }
  return expected;
}

void CheckCopy(Case c, std::vector<uint64_t> in, size_t to) {
  c.spec.data = in.data();
  CAPTURE(c.spec.rank);
  CAPTURE(c.spec.swizzle);
  CAPTURE(c.first[0]);
  const std::vector<uint16_t> expected = Expected(c, to, in);
  const size_t bytes = expected.size() * 2;
  const std::string body = kSetUp + Init(16, 1) + kFenceInit + kMeet +
                           Expect(16, static_cast<int>(bytes)) +
                           CopyTensor(to, c.first, 16) + Await(16, 0) +
                           StoreShared(to, bytes);
  for (const uint64_t seed : {0, 5}) {
    const Outcome outcome =
        RunIn(in, body, bytes / 8,
              {.threads = 64,
               .dynamic_shared = static_cast<uint32_t>(to + bytes),
               .seed = seed,
               .maps = {Encode(c.spec)}});
    REQUIRE(outcome.wrong == "");
    CHECK(std::memcmp(outcome.out.data(), expected.data(), bytes) == 0);
  }
}

TEST_CASE("boxes of every rank and swizzle lie where the ISA draws them") {
  for (const int swizzle : {0, 32, 64, 128}) {
    for (int rank = 1; rank <= 5; ++rank) {
      gpu::TensorMapSpec spec;
      spec.element_bytes = 2;
      spec.rank = rank;
      spec.swizzle = swizzle;
      const int side = swizzle == 0 ? 24 : swizzle / 2;
      const std::array<int, 5> box = {side, 5, 3, 2, 2};
      const std::array<int64_t, 5> sizes = {side + 11, 6, 4, 3, 2};
      int64_t step = 2, bytes = 2;
      for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
        spec.box[i] = box[i];
        spec.sizes[i] = sizes[i];
        spec.steps[i] = step;
        bytes = step * sizes[i];
        step = (bytes + 15) / 16 * 16 + (i == 1 ? 32 : 0);
      }
      const std::vector<uint64_t> in =
          Numbers(static_cast<size_t>(bytes + 15) / 16 * 16);
      const auto check = [&](const std::array<int, 5>& first) {
        const std::vector<int> firsts(first.begin(), first.begin() + rank);
        // A pattern begins at 1024, not where the box does.
        for (const size_t to : {1024, 1408}) CheckCopy({spec, firsts}, in, to);
      };
      check({0, 0, 0, 0, 0});
      check({8, 1, 1, 1, 0});
      check({3, 1, 0, 1, 0});  // not at 16 bytes
      check({-3, -1, -2, -1, -1});
      check({16, 0, 0, 0, 0});             // a chunk over the end
      check({side - 4, 4, 3, 2, 1});       // over the ends
      check({0, 0, 0, 0, 7});              // beyond, or not
      check({-70000, 0, 0, 0, 0});         // nothing of it
      check({0, 2, -100, 2147483647, 1});  // nor of this
    }
  }
}

TEST_CASE("dimensions may overlap and be in any order") {
  // 8 rows, of which each begins 16 bytes behind the last; columns stand apart.
  Case c{{.element_bytes = 2,
          .rank = 3,
          .sizes = {16, 8, 4},
          .steps = {2, 16, 0},
          .box = {16, 4, 2}},
         {0, 3, 1}};
  CheckCopy(c, Numbers(256), 1024);
  c.spec.steps = {2, 512, 32};
  CheckCopy(c, Numbers(4096), 1024);
}

TEST_CASE("bytes that follow each other are copied as they are") {
  std::vector<uint64_t> in = Numbers(4096);
  const std::string body = kSetUp + Init(0, 1) + kFenceInit + kMeet +
                           Expect(0, 48 + 1024) + CopyBytes(64, 16, 48, 0) +
                           CopyBytes(112, 2048, 1024, 0) + Await(0, 0) +
                           StoreShared(64, 48 + 1024);
  for (const uint64_t seed : {0, 1, 2}) {
    const Outcome outcome = RunIn(
        in, body, 134, {.threads = 64, .dynamic_shared = 2048, .seed = seed});
    REQUIRE(outcome.wrong == "");
    CHECK(std::memcmp(outcome.out.data(), in.data() + 2, 48) == 0);
    CHECK(std::memcmp(outcome.out.data() + 6, in.data() + 256, 1024) == 0);
  }
}

// 8 columns of 64 elements, at 128 bytes.
gpu::TensorMapSpec Rows(const void* data, int rows) {
  return {.data = data,
          .element_bytes = 2,
          .rank = 2,
          .sizes = {64, rows},
          .steps = {2, 128},
          .box = {64, 8},
          .swizzle = 128};
}

TEST_CASE("spellings of copies, prefetches and maps in global memory") {
  std::vector<uint64_t> in = Numbers(4096);
  const gpu::TensorMap map = Encode(Rows(in.data(), 16));
  // The map also stands in `in`, at a multiple of 64.
  const size_t at =
      (64 - reinterpret_cast<uintptr_t>(in.data() + 256) % 64) % 64 + 2048;
  std::memcpy(in.data() + at / 8, map.words.data(), sizeof(map));
  const std::string name = "cp.async.bulk.tensor.2d.";
  const std::string bytes = ".mbarrier::complete_tx::bytes";
  const std::string tensor = ", [%rd15, {0, 8}], [%r30]";
  const std::string global = StrCat("\tadd.s64 \t%rd15, %rd1, ", at, ";\n");
  const std::pair<std::string, std::string> copies[] = {
      {"", name + "shared::cluster.global" + bytes + " [%r30+1024]" + tensor},
      {"", name + "shared::cta.global.tile" + bytes + " [%r30+1024]" + tensor},
      {"\tcreatepolicy.fractional.L2::evict_first.b64 \t%rd16, 1.0;\n",
       name + "shared::cluster.global" + bytes + ".L2::cache_hint [%r30+1024]" +
           tensor + ", %rd16"},
      {"\t@%p8 prefetch.tensormap \t[%rd15];\n"
       "\t@%p8 cp.async.bulk.prefetch.tensor.2d.L2.global \t[%rd15, {0, 8}];\n",
       name + "shared::cluster.global.tile" + bytes + " [%r30+1024]" + tensor},
      {global,
       name + "shared::cluster.global" + bytes + " [%r30+1024]" + tensor},
  };
  for (const auto& [before, copy] : copies) {
    const Outcome outcome = RunIn(
        in,
        kSetUp + before + Init(0, 1) + kFenceInit + kMeet + Expect(0, 1024) +
            kFirst + copy + ";\n" + Await(0, 0) + StoreShared(1024, 1024),
        128, {.dynamic_shared = 2048, .maps = {map}});
    REQUIRE(outcome.wrong == "");
    // Row 8 is not swizzled, and of row 9 pairs of chunks are exchanged.
    CHECK(std::memcmp(outcome.out.data(), in.data() + 128, 128) == 0);
    CHECK(std::memcmp(outcome.out.data() + 16, in.data() + 146, 16) == 0);
    CHECK(std::memcmp(outcome.out.data() + 18, in.data() + 144, 16) == 0);
  }
}

// Tiles of 8 rows go through stages of 1024 bytes from 1024 on: warp 4 fills them, the
// others read. Of stage s, the mbarrier at 16 s says that it is full, at 16 s + 8 that it
// is empty.
std::string Pipeline(int stages, int tiles) {
  std::string text = kSetUp;
  for (int s = 0; s < stages; ++s) {
    text += Init(static_cast<size_t>(16 * s), 1);
    text += Init(static_cast<size_t>(16 * s + 8), 4);
  }
  return StrCat(text, kFenceInit, kMeet, R"(
	mov.u32 	%r1, 0;	// tile
	mov.u32 	%r2, 0;	// its stage
	mov.u32 	%r3, 0;	// parity
	shr.u32 	%r4, %r0, 5;
	setp.ne.u32 	%p1, %r4, 4;
	@%p1 bra 	$L_reads;
	elect.sync 	_|%p2, -1;
	@!%p2 bra 	$L_end;
$L_fill:
	shl.b32 	%r5, %r2, 4;
	add.s32 	%r5, %r5, %r30;
	shl.b32 	%r6, %r2, 10;
	add.s32 	%r6, %r6, %r30;
	xor.b32 	%r7, %r3, 1;
	{
	.reg .pred 	done;
LAB_WAIT:
	mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 	done, [%r5+8], %r7, 1000;
	@done bra 	DONE;
	bra 	LAB_WAIT;
DONE:
	}
	mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 	_, [%r5], 1024;
	shl.b32 	%r8, %r1, 3;
	mov.u32 	%r9, 0;
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r6+1024], [%rd15, {%r9, %r8}], [%r5];
	bra.uni 	$L_next;
$L_reads:
	shl.b32 	%r5, %r2, 4;
	add.s32 	%r5, %r5, %r30;
	shl.b32 	%r6, %r2, 10;
	add.s32 	%r6, %r6, %r30;
	{
	.reg .pred 	done;
LAB_WAIT:
	mbarrier.test_wait.parity.shared::cta.b64 	done, [%r5], %r3;
	@done bra 	DONE;
	bra 	LAB_WAIT;
DONE:
	}
	shl.b32 	%r10, %r0, 3;
	add.s32 	%r11, %r10, %r6;
	ld.shared.u64 	%rd10, [%r11+1024];
	shl.b32 	%r12, %r1, 10;
	add.s32 	%r12, %r12, %r10;
	cvt.u64.u32 	%rd11, %r12;
	add.s64 	%rd11, %rd11, %rd2;
	st.global.u64 	[%rd11], %rd10;
	fence.proxy.async.shared::cta;
	bar.warp.sync 	-1;
	and.b32 	%r13, %r0, 31;
	setp.eq.u32 	%p3, %r13, 0;
	@%p3 mbarrier.arrive.release.cta.shared::cta.b64 	_, [%r5+8];
$L_next:
	add.s32 	%r1, %r1, 1;
	add.s32 	%r2, %r2, 1;
	setp.eq.u32 	%p4, %r2, )",
                stages, R"(;
	@%p4 xor.b32 	%r3, %r3, 1;
	@%p4 mov.u32 	%r2, 0;
	setp.lt.u32 	%p5, %r1, )",
                tiles, R"(;
	setp.eq.u32 	%p6, %r4, 4;
	@!%p5 bra 	$L_end;
	@%p6 bra 	$L_fill;
	bra.uni 	$L_reads;
$L_end:
)");
}

TEST_CASE("a copy runs between its issue and the wait, by lot") {
  // Whether its phase is over after a while in which nobody waits.
  std::vector<uint64_t> in = Numbers(4096);
  const std::string body =
      kSetUp + Init(0, 1) + kFenceInit + kMeet + Expect(0, 64) +
      CopyBytes(64, 0, 64, 0) +
      "\tmov.u32 \t%r1, 0;\n$L_while:\n\tadd.s32 \t%r1, %r1, 1;\n"
      "\tsetp.lt.u32 \t%p1, %r1, 40;\n\t@%p1 bra \t$L_while;\n"
      "\tmbarrier.test_wait.parity.shared::cta.b64 \t%p2, [%r30], 0;\n"
      "\tselp.u32 \t%r2, 1, 0, %p2;\n\tst.global.u32 \t[%rd4], %r2;\n" +
      Await(0, 0);
  int over = 0;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    const Outcome outcome = RunIn(
        in, body, 512, {.threads = 64, .dynamic_shared = 128, .seed = seed});
    REQUIRE(outcome.wrong == "");
    if (seed == 0) CHECK(outcome.out[0] == 0);
    over += outcome.out[0] == 1 ? 1 : 0;
  }
  CHECK(over > 0);
  CHECK(over < 31);
}

TEST_CASE("params that hold a tensor map are aligned as it is") {
  std::string text = Text(
      kSetUp + "\tcp.async.bulk.prefetch.tensor.1d.L2.global \t[%rd15, {0}];\n",
      1);
  text.replace(text.find(".param .align 64"), 16, ".param .align 32");
  Module module;
  REQUIRE(module.Add(text).ok());
  const std::vector<std::byte> params(192);
  Machine machine;
  const std::string wrong = machine.Run(
      {.kernel = *module.Find("test"), .params = params, .memory = {}});
  INFO(wrong);
  CHECK(
      wrong.find("of the params, which are aligned to 32 bytes; expected 64") !=
      std::string::npos);
}

TEST_CASE("tiles go through stages in any order of warps and copies") {
  constexpr int kTiles = 7;
  std::vector<uint64_t> in = Numbers(kTiles * 1024);
  const gpu::TensorMap map = Encode(Rows(in.data(), 50));
  for (const int stages : {1, 2, 3}) {
    for (uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(stages);
      CAPTURE(seed);
      const Outcome outcome =
          RunIn(in, Pipeline(stages, kTiles), kTiles * 128,
                {.threads = 160,
                 .dynamic_shared = 1024 * (1 + static_cast<uint32_t>(stages)),
                 .seed = seed,
                 .maps = {map}});
      REQUIRE(outcome.wrong == "");
      for (size_t chunk = 0; chunk < kTiles * 64; ++chunk) {
        const size_t place = PlaceOfChunk(0, chunk, 128) / 8;
        for (size_t i = 0; i < 2; ++i) {
          const uint64_t expected = chunk / 8 < 50 ? in[2 * chunk + i] : 0;
          REQUIRE(outcome.out[place + i] == expected);
        }
      }
    }
  }
}

float Element(size_t i) { return static_cast<float>(i % 13) - 6; }

TEST_CASE("products read what was copied, by the same swizzle") {
  // B^T of 8 rows and A of 64, each 64 elements, of which a product takes the first 16.
  std::vector<uint64_t> in = Numbers(72 * 128);
  auto* const elements = reinterpret_cast<uint16_t*>(in.data());
  for (size_t i = 0; i < 72 * 64; ++i) elements[i] = ToBF16(Element(i));
  gpu::TensorMapSpec b = Rows(in.data(), 8), a = Rows(in.data() + 128, 64);
  a.box = {64, 64};
  const std::string second = "\tadd.s64 \t%rd16, %rd15, 128;\n";
  const std::string body =
      kSetUp + second + Init(0, 1) + kFenceInit + kMeet + Expect(0, 72 * 128) +
      CopyTensor(1024, {0, 0}, 0) + CopyTensor(2048, {0, 0}, 0, "%rd16") +
      Accumulators(8) + SetAccumulators(8, "0f00000000") +
      Describe(0, {.start = 2048, .stride = 1024, .swizzle = 1}) +
      Describe(1, {.start = 1024, .stride = 1024, .swizzle = 1}) + Await(0, 0) +
      kFence + Multiply(8, "%rd10, %rd11, 1, 1, 1, 0, 0") + kEnd +
      StoreAccumulators(8);
  for (const uint64_t seed : {0, 1, 2}) {
    const Outcome outcome = RunIn(in, body, 256,
                                  {.threads = 128,
                                   .dynamic_shared = 2048 + 64 * 128,
                                   .seed = seed,
                                   .maps = {Encode(b), Encode(a)}});
    REQUIRE(outcome.wrong == "");
    for (size_t i = 0; i < 64; ++i) {
      for (size_t j = 0; j < 8; ++j) {
        float sum = 0;
        for (size_t k = 0; k < 16; ++k) {
          sum += Element(512 + i * 64 + k) * Element(j * 64 + k);
        }
        // Of row i, thread 4 (i % 8) + j / 2 of warp i / 16.
        const size_t thread = i / 16 * 32 + i % 8 * 4 + j / 2;
        float got;
        std::memcpy(&got,
                    reinterpret_cast<const std::byte*>(outcome.out.data()) +
                        16 * thread + 8 * (i % 16 / 8) + 4 * (j % 2),
                    4);
        CHECK(got == sum);
      }
    }
  }
}

}  // namespace
}  // namespace stowage::testing::ptx
