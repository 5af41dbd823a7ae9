// What the interpreter of PTX reports of bulk copies, on kernels written by hand: each that
// is wrong beside one that is right.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gpu/emulator/warpgroup.h"
#include "gpu/tensor_map.h"
#include "tests/gpu/ptx/written_kernel.h"

namespace stowage::testing::ptx {
namespace {

constexpr const char* kNothing = "";
constexpr uint32_t kShared = 8192;

// The map is of 8 rows of 64 elements, of which a box takes 4: 512 bytes.
gpu::TensorMapSpec Rows() {
  return {.element_bytes = 2,
          .rank = 2,
          .sizes = {64, 8},
          .steps = {2, 128},
          .box = {64, 4},
          .swizzle = 128};
}

// In several orders of warps and copies.
void Gives(const std::string& body, const char* what, uint32_t threads = 64,
           gpu::TensorMapSpec spec = Rows()) {
  for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    CAPTURE(seed);
    std::vector<uint64_t> in(2048);
    spec.data = in.data();
    const auto map = gpu::emulator::EncodeTensorMap(spec);
    REQUIRE(map);
    const Outcome outcome = RunIn(in, body, 8 * threads,
                                  {.threads = threads,
                                   .dynamic_shared = kShared,
                                   .seed = seed,
                                   .maps = {*map, gpu::TensorMap()}});
    if (*what == '\0') {
      CHECK(outcome.wrong == "");
    } else {
      Says(outcome, what);
    }
  }
}

const std::string kRead = "\tld.shared.u32 \t%r1, [%r30+1280];\n";
const std::string kWrite = "\t@%p8 st.shared.u32 \t[%r30+1280], %r0;\n";

// The parts of a kernel that copies 4 rows to byte 1024 and reads them.
struct Parts {
  std::string init = kSetUp + Init(0, 1);
  std::string fence = kFenceInit;
  std::string meet = kMeet;
  std::string before;
  std::string expect = Expect(0, 512);
  std::string copy = CopyTensor(1024, {0, 0}, 0);
  std::string meanwhile;
  std::string wait = Await(0, 0);
  std::string after = kRead;
};
void Gives(const Parts& p, const char* what, uint32_t threads = 64) {
  Gives(p.init + p.fence + p.meet + p.before + p.expect + p.copy + p.meanwhile +
            p.wait + p.after,
        what, threads);
}

TEST_CASE("a copy that is right gives nothing to report") {
  Gives(Parts(), kNothing);
  Parts p;  // bytes may be expected behind the copy
  p.expect.swap(p.copy);
  Gives(p, kNothing);
  p = Parts();
  p.fence = kFirst + "fence.proxy.async.shared::cta;\n";
  Gives(p, kNothing);
  // The first may go on alone.
  Gives(kSetUp + Init(0, 1) + kFenceInit + Expect(0, 512) +
            CopyTensor(1024, {0, 0}, 0) + kMeet + Await(0, 0) + kRead,
        kNothing);
}

TEST_CASE("an mbarrier is fenced before copies signal it") {
  Parts p;
  p.fence = "";
  Gives(p, "was initialised by warp 0 lane 0 and is signalled by a copy");
  p.fence = kFirst + "fence.proxy.async.global;\n";
  Gives(p, "was initialised by warp 0 lane 0 and is signalled by a copy");
  p.fence = "";
  p.init = kSetUp + kFenceInit + Init(0, 1);
  Gives(p, "was initialised by warp 0 lane 0 and is signalled by a copy");
  // Another lane issues the copy.
  p = Parts();
  p.meet = kMeet + "\tsetp.eq.u32 \t%p8, %r0, 37;\n";
  Gives(p, kNothing);
  p.meet = "\tsetp.eq.u32 \t%p8, %r0, 7;\n";
  Gives(p, "mbarrier at 0");
  p.copy = CopyTensor(1024, {0, 0}, 8);
  p.meet = kMeet;
  Gives(p, "there is no mbarrier at 8");
}

TEST_CASE("what is copied is there for those who have waited") {
  const char* const race =
      "shared byte 1280 is written by a bulk copy and is read by warp";
  Parts p;
  p.copy += kMeet;
  p.wait.swap(p.after);  // reads, then waits
  Gives(p, race);
  p.wait.swap(p.after);
  p.wait = kMeet;  // a barrier is no wait
  Gives(p, race);
  // Who comes after one that has waited, has.
  const std::string first =
      "\tsetp.ne.u32 \t%p1, %r0, 0;\n\t@%p1 bra \t$L_waited;\n" + Await(0, 0) +
      "$L_waited:\n";
  p.wait = first;
  Gives(p, race);
  p.wait = first + kMeet;
  Gives(p, kNothing);
  p.wait = first + "\tbar.warp.sync \t-1;\n";
  Gives(p, race);
  Gives(p, kNothing, 32);
  // A wait that does not acquire.
  p.wait = Await(0, 0);
  p.wait.replace(p.wait.find(".parity"), 7, ".parity.relaxed.cta");
  Gives(p, race);
  // One try is no wait.
  p.wait =
      "\tmbarrier.try_wait.parity.shared::cta.b64 \t%p1, [%r30], 0, 1000;\n";
  p.meanwhile = kRead;
  Gives(p, race);
}

TEST_CASE("while a copy is under way nobody else writes there") {
  Parts p;
  p.meanwhile = kWrite;
  Gives(p,
        "shared byte 1280 is written by a bulk copy and is written by warp "
        "0 lane 0, which has not waited");
  p.meanwhile = "";
  p.after = kWrite;
  Gives(p, kNothing);
  // Nor does another copy.
  const char* const twice =
      "and was written by another, for which that lane has not waited";
  p = Parts();
  p.expect = Expect(0, 1024);
  p.meanwhile = CopyTensor(1408, {0, 4}, 0);
  Gives(p, twice);
  p.meanwhile = CopyTensor(1536, {0, 4}, 0);
  Gives(p, kNothing);
  p = Parts();
  const std::string again =
      Expect(0, 512) + CopyTensor(1024, {0, 4}, 0) + Await(0, 1);
  p.after = kMeet + again + kRead;
  Gives(p, kNothing);
  // Of another mbarrier, of which all wait for the first phase alone.
  p.init += Init(8, 1);
  p.meanwhile = Expect(8, 512) + CopyTensor(1024, {0, 4}, 8) + Await(8, 0);
  Gives(p, twice);
  // Nor a copy by a warp.
  p = Parts();
  p.meanwhile =
      "\tshl.b32 \t%r2, %r0, 4;\n\tadd.s32 \t%r2, %r2, %r30;\n"
      "\tcp.async.cg.shared.global \t[%r2+1024], [%rd3], 16, 16;\n";
  Gives(p, "shared byte 1024 is written by a bulk copy and is written by warp",
        32);
  p.before = p.meanwhile;
  p.meanwhile = "";
  Gives(p, "shared byte 1024 is being copied, and written by a bulk copy", 32);
}

TEST_CASE("what was written or read needs a fence of proxies before a copy") {
  const std::string fence = "\tfence.proxy.async;\n";
  Parts p;
  p.before = kWrite + kMeet;
  Gives(p, "and was written by warp 0 lane 0 without a fence.proxy.async");
  p.before = fence + kWrite + kMeet;
  Gives(p, "and was written by warp 0 lane 0 without a fence.proxy.async");
  p.before = kWrite + fence + kMeet;
  Gives(p, kNothing);
  p.before = kWrite + "\tfence.proxy.async.global;\n" + kMeet;
  Gives(p, "and was written by warp 0 lane 0 without a fence.proxy.async");
  p.before = kWrite + "\tfence.mbarrier_init.release.cluster;\n" + kMeet;
  Gives(p, "and was written by warp 0 lane 0 without a fence.proxy.async");
  // Readers of what was copied before.
  const std::string again =
      Expect(0, 512) + CopyTensor(1024, {0, 4}, 0) + Await(0, 1) + kRead;
  p = Parts();
  p.after = kRead + fence + kMeet + again;
  Gives(p, kNothing);
  p.after = kRead + kMeet + again;
  Gives(p, "without a fence.proxy.async of that lane in between");
  p.after = kRead + fence + again;
  Gives(p, "without a barrier in between");
  // All but one have fenced.
  p.after = kRead +
            "\tsetp.ne.u32 \t%p1, %r0, 45;\n\t@%p1 fence.proxy.async;\n" +
            kMeet + again;
  Gives(p, "and was read by warp 1 without a fence.proxy.async");
  // By an mbarrier.
  p.init += Init(8, 64);
  p.after = kRead + fence + Arrive(8) + Await(8, 0) + again;
  Gives(p, kNothing);
  p.after = kRead + Arrive(8) + fence + Await(8, 0) + again;
  Gives(p, "without a fence.proxy.async of that lane in between");
  p.after = kRead + fence + Arrive(8) + again;
  Gives(p, "without a barrier in between");
}

TEST_CASE("a phase must expect what is copied") {
  Parts p;
  p.expect = Expect(0, 0);  // the copy is of the next phase
  Gives(p, "shared byte 1280");
  p.expect = Expect(0, 256);
  Gives(p, "mbarrier at 0, whose phase 0 waits for 0 arrivals and -256 bytes");
  p.expect = Expect(0, 1024);
  Gives(p, "mbarrier at 0, whose phase 0 waits for 0 arrivals and 512 bytes");
  p.expect = "";
  Gives(p, "mbarrier at 0, whose phase 0 waits for 1 arrivals and -512 bytes");
  // 256 bytes are expected by one copy, of which two are issued.
  p = Parts();
  p.meanwhile = CopyTensor(2048, {0, 4}, 0);
  Gives(p, "mbarrier at 0");
}

TEST_CASE("a block waits for its copies") {
  Parts p;
  p.wait = p.after = "";
  Gives(p, "the block ends");  // before the copy, or behind it
  std::vector<uint64_t> in(64);
  const Outcome late = RunIn(in,
                             kSetUp + Init(0, 1) + kFenceInit + kMeet +
                                 Expect(0, 64) + CopyBytes(64, 0, 64, 0),
                             64, {.dynamic_shared = 128});
  Says(late, "the block ends while this copy is under way, of 64 bytes to 64");
  p.wait = kFirst + "mbarrier.inval.shared::cta.b64 \t[%r30];\n";
  Gives(p, "nobody has waited for copies that signal its phase 0");
  p.wait = Await(0, 0) + kMeet + p.wait;
  Gives(p, kNothing);
}

TEST_CASE("copies are of aligned places, inside of shared memory") {
  Parts p;
  p.copy = CopyTensor(1088, {0, 0}, 0);
  Gives(p, "a bulk copy to 1088, which is not aligned to 128 bytes");
  p.copy = CopyTensor(7808, {0, 0}, 0);
  Gives(p, "a copy of 512 bytes to 7808 of 8192 bytes of shared memory");
  p.copy = CopyTensor(0, {0, 0}, 0);
  Gives(p, "shared byte 0 is part of an mbarrier, and written by a bulk copy");
  p.copy = CopyBytes(1032, 0, 64, 0);
  Gives(p, "a bulk copy to 1032, which is not aligned to 16 bytes");
  p.copy = CopyBytes(1040, 8, 64, 0);
  Gives(p, "which is not aligned to 16 bytes");
  p.copy = CopyBytes(1040, 16, 72, 0);
  Gives(p, "of so many bytes: 72, which is not aligned to 16");
  p.expect = Expect(0, 64);
  p.copy = CopyBytes(1024, 16384, 64, 0);
  Gives(p, "is outside of what the kernel was given");
  p.copy = CopyBytes(1024, 16320, 64, 0);
  p.after = "";
  Gives(p, kNothing);
}

TEST_CASE("a tensor lies in what the kernel was given") {
  gpu::TensorMapSpec spec = Rows();
  const Parts p;
  const std::string body = p.init + p.fence + p.meet + p.expect +
                           CopyTensor(1024, {0, 126}, 0) + p.wait + p.after;
  spec.sizes[1] = 129;  // of 128 that there are
  Gives(body, "is outside of what the kernel was given", 64, spec);
  spec.sizes[1] = 128;
  Gives(body, kNothing, 64, spec);
}

TEST_CASE("a tensor map must be one") {
  Parts p;
  p.before = "\tadd.s64 \t%rd15, %rd15, 32;\n";
  Gives(p, "a tensor map at 96 of the params is not aligned to 64 bytes");
  p.before = "\tadd.s64 \t%rd15, %rd15, 128;\n";
  Gives(p, "a tensor map at 192 of the params is none that the driver");
  p.before = "\tadd.s64 \t%rd15, %rd15, 256;\n";
  Gives(p, "a tensor map at 320 of the params, of 320 bytes");
  p.before = "\tmov.b64 \t%rd15, 64;\n";
  Gives(p,
        "a tensor map at 64: an access of 16 bytes at address 64 is outside");
  p = Parts();
  p.copy = CopyTensor(1024, {0, 0, 0}, 0);
  Gives(p, "has 2 dimensions; expected 3");
  p.copy =
      kFirst + "cp.async.bulk.prefetch.tensor.1d.L2.global \t[%rd15, {0}];\n";
  Gives(p, "has 2 dimensions; expected 1");
  p.copy = kFirst + "prefetch.tensormap \t[%rd15+8];\n";
  Gives(p, "is not aligned to 64 bytes");
  gpu::TensorMapSpec narrow = Rows();
  narrow.box[0] = 32;
  Gives(p.init + p.fence + p.meet + CopyTensor(1024, {0, 0}, 0),
        "has rows of 64 bytes, and a swizzle of 128", 64, narrow);
}

TEST_CASE("global memory that was written needs a fence before it is copied") {
  Parts p;
  const std::string write = kFirst + "st.global.u32 \t[%rd1+64], %r0;\n";
  p.before = write + kMeet;
  Gives(p,
        "is read by a bulk copy and was written by warp 0 lane 0 without a "
        "fence.proxy.async");
  p.before = write + "\tfence.proxy.async.shared::cta;\n" + kMeet;
  Gives(p,
        "is read by a bulk copy and was written by warp 0 lane 0 without a "
        "fence.proxy.async");
  p.before = write + "\tfence.proxy.async.global;\n" + kMeet;
  Gives(p, kNothing);
  p.before =
      "\tsetp.eq.u32 \t%p1, %r0, 40;\n"
      "\t@%p1 st.global.u32 \t[%rd1+64], %r0;\n";
  Gives(p, "a race: global byte");
}

// A of 64 rows is copied to 2048, B of 8 to 1024, as products without a swizzle read
// them.
constexpr Descriptor kA{.start = 2048, .leading = 1024, .stride = 128};
constexpr Descriptor kB{.start = 1024, .leading = 128, .stride = 256};
const std::string kCopyBoth =
    Expect(0, 2304) + CopyBytes(1024, 0, 256, 0) + CopyBytes(2048, 0, 2048, 0);
struct Product {
  std::string wait = Await(0, 0);
  std::string multiply = kFence + Multiply(8, "%rd10, %rd11, 1, 1, 1, 0, 0");
  std::string end = kEnd, after;
};
void Gives(const Product& p, const char* what) {
  Gives(kSetUp + Init(0, 1) + Init(8, 128) + Init(16, 4) + kFenceInit + kMeet +
            Accumulators(8) + SetAccumulators(8, "0f00000000") +
            Describe(0, kA) + Describe(1, kB) + kCopyBoth + p.wait +
            p.multiply + p.end + p.after,
        what, 128);
}

TEST_CASE("a product needs the wait for its copies, and no fence of proxies") {
  Gives(Product(), kNothing);
  Product p;
  p.wait.swap(p.after);
  Gives(p,
        "is written by a bulk copy and is read by a product of warps 0 to 3");
  p = Product();
  // One warp of four has not waited, or one lane.
  p.wait = "\tsetp.ge.u32 \t%p1, %r0, 96;\n\t@%p1 bra \t$L_waited;\n" +
           Await(0, 0) + "$L_waited:\n";
  p.after = Await(0, 0);
  Gives(p, "not all lanes of warp 3 have waited for its mbarrier");
  p.wait = "\tsetp.eq.u32 \t%p1, %r0, 77;\n\t@%p1 bra \t$L_waited;\n" +
           Await(0, 0) + "$L_waited:\n";
  Gives(p, "not all lanes of warp 2 have waited for its mbarrier");
  // Which a barrier of the warpgroup mends.
  p.wait += "\tbar.sync \t1, 128;\n";
  Gives(p, kNothing);
}

TEST_CASE("what a product reads is copied again when all have waited for it") {
  const std::string again = kCopyBoth + Await(0, 1);
  const std::string one =
      "\tand.b32 \t%r2, %r0, 31;\n\tsetp.eq.u32 \t%p1, %r2, 0;\n"
      "\t@%p1 mbarrier.arrive.shared::cta.b64 \t_, [%r30+16];\n";
  Product p;
  p.after = kMeet + again;
  Gives(p, kNothing);
  p.after = Arrive(8) + Await(8, 0) + again;
  Gives(p, kNothing);
  p.after = one + Await(16, 0) + again;  // a lane for each warp
  Gives(p, kNothing);
  p.after = again;  // a wait is no barrier
  Gives(p, "and was read by a product of warps 0 to 3");
  p.after.swap(p.end);
  p.end += kMeet;
  Gives(p, "was read by a product of warps 0 to 3 that was not waited for");
  // Who arrives before the wait.
  p = Product();
  p.end = one + kEnd + Await(16, 0) + again;
  Gives(p, "and was read by a product of warps 0 to 3");
  // A warp that waits for the mbarrier alone.
  p.end = kEnd + one + "\t@%p8 bra \t$L_first;\n\tret;\n$L_first:\n" + again;
  Gives(p, "and was read by a product of warps 0 to 3");
}

}  // namespace
}  // namespace stowage::testing::ptx
