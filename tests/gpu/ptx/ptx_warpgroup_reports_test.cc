// What the interpreter of PTX reports of products of warpgroups, on kernels written by
// hand: each that is wrong beside one that is right.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/gpu/ptx/written_kernel.h"

namespace stowage::testing::ptx {
namespace {

// Both matrices are K-major and not swizzled: B of 8 columns at 0, A at 2048.
constexpr Descriptor kA{.start = 2048, .leading = 1024, .stride = 128};
constexpr Descriptor kB{.start = 0, .leading = 128, .stride = 256};
constexpr uint32_t kBytes = 4096;
const std::string kOperands = "%rd10, %rd11, 1, 1, 1, 0, 0";

// The parts of a kernel that computes one product of 8 columns.
struct Parts {
  std::string fill = FillShared(kBytes) + kProxyFence + kBarrier;
  std::string set = SetAccumulators(8, "0f00000000");
  std::string descriptors = Describe(0, kA) + Describe(1, kB);
  std::string fence = kFence;
  std::string product = Multiply(8, kOperands);
  std::string meanwhile;
  std::string end = kEnd;
  std::string after = StoreAccumulators(8);
};

std::string Join(const Parts& p) {
  return p.fill + Accumulators(8) + "\t.reg .b32 \t%a<4>;\n" + p.set +
         p.descriptors + p.fence + p.product + p.meanwhile + p.end + p.after;
}

// In several orders of warps.
void Gives(const std::string& body, const char* what, uint32_t threads = 128) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    CAPTURE(seed);
    const Outcome outcome =
        RunOn(body, std::vector<uint64_t>(2048), 8 * threads,
              {.threads = threads, .dynamic_shared = kBytes, .seed = seed});
    if (*what == '\0') {
      CHECK(outcome.wrong == "");
    } else {
      Says(outcome, what);
    }
  }
}
void Gives(const Parts& parts, const char* what, uint32_t threads = 128) {
  Gives(Join(parts), what, threads);
}
constexpr const char* kNothing = "";

TEST_CASE("a product that is right gives nothing to report") {
  Gives(Parts(), kNothing);
  Gives(Parts(), kNothing, 256);
}

TEST_CASE("a warpgroup must be whole") {
  Gives(Parts(), "a product of warps 0 to 3 in a block of 2 warps", 64);
  Gives(Parts(), "a product of warps 4 to 7 in a block of 5 warps", 160);
  Parts p;
  // Warp 2 has ended.
  p.descriptors +=
      "\tshr.u32 \t%r2, %r0, 5;\n\tsetp.eq.u32 \t%p1, %r2, 2;\n\t@%p1 ret;\n";
  Gives(p, "2 has ended");
  // Or waits elsewhere.
  p.descriptors.replace(p.descriptors.find("ret"), 3, "bar.sync \t1, 64");
  Gives(p, "warps wait for ever");
  // A lane is missing.
  p = Parts();
  p.descriptors += "\tsetp.eq.u32 \t%p1, %r0, 40;\n\t@%p1 ret;\n";
  Gives(p, "only lanes");
}

TEST_CASE("the warps of a warpgroup must agree") {
  Parts p;
  p.descriptors += "\tsetp.lt.u32 \t%p1, %r0, 96;\n";
  p.product = "\t@%p1 bra \t$L_one;\n" + p.product + "\tbra.uni \t$L_two;\n" +
              "$L_one:\n" + p.product + "$L_two:\n";
  Gives(p, "of its warpgroup to that at line");

  p = Parts();
  p.descriptors +=
      "\tsetp.ge.u32 \t%p1, %r0, 64;\n\t@%p1 add.s64 \t%rd11, %rd11, 16;\n";
  Gives(p, "descriptor B is 68720001040 in warp 2 lane 0 and 68720001024");

  p = Parts();
  p.descriptors += "\tsetp.ne.u32 \t%p1, %r0, 77;\n";
  p.product = Multiply(8, "%rd10, %rd11, %p1, 1, 1, 0, 0");
  Gives(p, "scale-d is 0 in warp 2 lane 13 and 1 in warp 0 lane 0");
}

TEST_CASE("operands must be what the instruction takes") {
  Parts p;
  p.product = Multiply(8, "%rd10, %rd11, 1, 1, 2, 0, 0");
  Gives(p, "imm-scale-b is 2; expected 1 or -1");
  p.product = Multiply(8, "%rd10, %rd11, 1, 1, 1, 0, 3");
  Gives(p, "imm-trans-b is 3; expected 0 or 1");
  // A in registers has no order of its own.
  p.product = Multiply(8, "{%a0, %a1, %a2, %a3}, %rd11, 1, 1, 1, 0, 0");
  Gives(p, "operands");
}

TEST_CASE("registers belong to a product until the wait for it") {
  Parts p;
  p.meanwhile = "\tadd.f32 \t%f1, %d2, %d2;\n";
  Gives(p, "a register of a product that was not waited for is read");
  p.meanwhile = "\tmov.f32 \t%d2, 0f00000000;\n";
  Gives(p, "a register of a product that was not waited for is written");
  // Nothing of which is mended by other groups, or none.
  p = Parts();
  p.end = kCommit + WaitFor(1);
  Gives(p, "a register of a product that was not waited for is read");
  p.end = WaitFor(0);
  Gives(p, "a register of a product that was not waited for is read");
  p.end = kCommit;
  p.after = "";
  Gives(p, "ends with 1 products that were not waited for");

  // A in registers.
  p = Parts();
  for (int i = 0; i < 4; ++i) p.set += StrCat("\tmov.u32 \t%a", i, ", 0;\n");
  p.product = Multiply(8, "{%a0, %a1, %a2, %a3}, %rd11, 1, 1, 1, 0");
  Gives(p, kNothing);
  p.meanwhile = "\tmov.u32 \t%a1, 0;\n";
  Gives(p, "a register of a product that was not waited for is written");
  p.meanwhile = "\tadd.s32 \t%r2, %a1, %a1;\n";
  Gives(p, "a register of a product that was not waited for is read");
  p.after = p.meanwhile + p.after;  // but behind the wait
  p.meanwhile = "";
  Gives(p, kNothing);
  // A second product may read them, too.
  p.product += p.product;
  Gives(p, kNothing);
}

TEST_CASE("of two groups the older can be waited for alone") {
  const std::string other = "%e";
  Parts p;
  p.set += Accumulators(8, other) + SetAccumulators(8, "0f00000000", other);
  p.end = kCommit + Multiply(8, kOperands, "bf16", other) + kCommit +
          WaitFor(1) + "\tadd.f32 \t%f1, %d3, %d3;\n";
  Gives(p, "ends with 1 products");
  const Parts half = p;
  p.end += WaitFor(0) + "\tadd.f32 \t%f1, %e3, %e3;\n";
  Gives(p, kNothing);
  p = half;
  p.end += "\tadd.f32 \t%f1, %e3, %e3;\n";
  Gives(p, "a register of a product that was not waited for is read");
  // Accumulators that the younger group goes on with are not back.
  p = Parts();
  p.end = kCommit + Multiply(8, kOperands) + kCommit + WaitFor(1);
  Gives(p, "a register of a product that was not waited for is read");
  p.end += WaitFor(0);
  Gives(p, kNothing);
}

TEST_CASE("registers that were written need a fence") {
  Parts p;
  p.fence = "";
  Gives(p, "a product without a wgmma.fence before it");
  p.fence = kFence + "\tmov.f32 \t%d1, 0f00000000;\n";
  Gives(p, "register 1 of D was written since the last wgmma.fence");
  p.fence += kFence;
  Gives(p, kNothing);
  // Between two products, too.
  p = Parts();
  p.end = kEnd + "\tadd.f32 \t%d3, %d3, %d3;\n" + Multiply(8, kOperands) + kEnd;
  Gives(p, "register 3 of D was written since the last wgmma.fence");
  p.end = kEnd + Multiply(8, kOperands) + kEnd;
  Gives(p, kNothing);

  p = Parts();
  for (int i = 0; i < 4; ++i) p.fence += StrCat("\tmov.u32 \t%a", i, ", 0;\n");
  p.product = Multiply(8, "{%a0, %a1, %a2, %a3}, %rd11, 1, 1, 1, 0");
  Gives(p, "register 0 of A was written since the last wgmma.fence");
  p.fence += kFence;
  Gives(p, kNothing);
}

TEST_CASE("only products of one shape share accumulators without a fence") {
  // 16 columns, of which the first half of the registers were those of 8.
  Parts p;
  p.set = ".reg .f32 \t%e<8>;\n" + SetAccumulators(16, "0f00000000", "%e");
  p.descriptors = Describe(0, kA) + Describe(1, kB);
  p.product = Multiply(8, kOperands, "bf16", "%e");
  p.after = "";
  for (const bool waits : {false, true}) {
    const std::string second = Multiply(16, kOperands, "bf16", "%e");
    p.end = (waits ? kEnd : kCommit) + second + kEnd;
    Gives(p, "is one of a product with N = 8, and of this with N = 16");
    p.end = (waits ? kEnd : kCommit) + kFence + second + kEnd;
    Gives(p, kNothing);
  }
}

TEST_CASE("an accumulator that nobody wrote is no operand") {
  Parts p;
  p.set = SetAccumulators(4, "0f00000000");
  Gives(p, "read a register that they never wrote");
  p.product = Multiply(8, "%rd10, %rd11, 0, 1, 1, 0, 0");
  Gives(p, kNothing);
}

TEST_CASE("what a product reads may not be written before all have waited") {
  const std::string store =
      "\tmov.u32 \t%r1, stowage_dynamic_shared;\n"
      "\tshl.b32 \t%r2, %r0, 2;\n\tadd.s32 \t%r2, %r2, %r1;\n"
      "\tmov.u32 \t%r3, 0;\n\tst.shared.u32 \t[%r2+2048], %r3;\n";
  Parts p;
  p.meanwhile = store;
  Gives(p, "was read by a product of warps 0 to 3 that was not waited for");
  p.meanwhile = kBarrier + store;  // a barrier is no wait
  Gives(p, "was read by a product of warps 0 to 3 that was not waited for");
  p = Parts();
  p.after = store;  // a wait is no barrier
  Gives(p, "was read by a product of warps 0 to 3");
  p.after = kBarrier + store;
  Gives(p, kNothing);
  // A barrier of the warpgroup is enough.
  p.after = "\tbar.sync \t3, 128;\n" + store;
  Gives(p, kNothing);
  // Reading does no harm.
  p = Parts();
  p.meanwhile = store;
  const size_t at = p.meanwhile.find("st.shared");
  p.meanwhile.replace(at, std::string::npos,
                      "ld.shared.u32 \t%r3, [%r2+2048];\n");
  Gives(p, kNothing);

  // The second warpgroup writes what the first reads.
  const auto two = [&](const std::string& first, const std::string& second) {
    Parts q;
    std::string body = Join(q);
    const size_t from = body.find(q.fence);
    return body.substr(0, from) +
           "\tsetp.ge.u32 \t%p6, %r0, 128;\n\t@%p6 bra \t$L_second;\n" +
           kFence + q.product + kEnd + first +
           "\tret;\n$L_second:\n\tadd.s32 \t%r0, "
           "%r0, -128;\n" +
           second + store;
  };
  const std::string full = "\tbar.sync \t2, 256;\n";
  const std::string arrive = "\tbar.arrive \t2, 256;\n";
  Gives(two(full, full), kNothing, 256);
  Gives(two(arrive, full), kNothing, 256);
  Gives(two("", ""), "a race", 256);
  // Who only arrives does not come after others.
  Gives(two(full, arrive), "a race", 256);
}

TEST_CASE("what was written needs a fence of proxies and a barrier") {
  const std::string fill = FillShared(kBytes);
  Parts p;
  p.fill = fill + kBarrier;
  Gives(p, "without a fence.proxy.async of that lane");
  p.fill = fill + kBarrier + kProxyFence;
  Gives(p, "without a fence.proxy.async of that lane");
  p.fill = kProxyFence + fill + kBarrier;
  Gives(p, "without a fence.proxy.async of that lane");
  p.fill = fill + "\tfence.proxy.async.global;\n" + kBarrier;
  Gives(p, "without a fence.proxy.async of that lane");
  p.fill = fill + "\tfence.proxy.async.shared::cta;\n" + kBarrier;
  Gives(p, kNothing);
  // Of another lane.
  p.fill = fill + "\tsetp.ne.u32 \t%p1, %r0, 66;\n\t@%p1 fence.proxy.async;\n" +
           kBarrier;
  Gives(p, "was written by warp 2 lane 2 and is read");
  // A fence is no barrier.
  p.fill = fill + kProxyFence;
  Gives(p, "a race: shared byte");
  p.fill = fill + kProxyFence + "\tbar.warp.sync \t-1;\n";
  Gives(p, "a race: shared byte");
  // Fenced, seen, and not written again.
  p.fill = fill + kProxyFence + kBarrier + kProxyFence + kBarrier;
  Gives(p, kNothing);
}

TEST_CASE("an asynchronous copy is waited for before it is fenced") {
  const std::string copy =
      "\tmov.u32 \t%r1, stowage_dynamic_shared;\n"
      "\tshl.b32 \t%r2, %r0, 5;\n\tadd.s32 \t%r2, %r2, %r1;\n"
      "\tadd.s32 \t%r3, %r2, 16;\n"
      "\tcp.async.cg.shared.global \t[%r2], [%rd3], 16, 16;\n"
      "\tcp.async.cg.shared.global \t[%r3], [%rd3], 16, 16;\n"
      "\tcp.async.commit_group;\n";
  const std::string wait = "\tcp.async.wait_group \t0;\n";
  Parts p;
  p.fill = copy + wait + kProxyFence + kBarrier;
  Gives(p, kNothing);
  p.fill = copy + kProxyFence + wait + kBarrier;
  Gives(p, "without a fence.proxy.async of that lane");
  p.fill = copy + kProxyFence + kBarrier;
  Gives(p, "is being copied and was not waited for");
  // And to where a product reads.
  p = Parts();
  p.meanwhile = copy;
  Gives(p, "was read by a product of warps 0 to 3 that was not waited for");
}

TEST_CASE("matrices lie in shared memory, and start where their pattern does") {
  Parts p;
  const auto with_b = [&](const Descriptor& b) {
    p.descriptors = Describe(0, kA) + Describe(1, b);
    return p;
  };
  Gives(with_b({.start = 4096, .leading = 128}),
        "of 4096 bytes of shared memory");
  Gives(with_b({.start = 0, .leading = 4096}), "element (0, 8) of B");
  Gives(with_b({.base = 1}), "descriptor B has base offset 1 and no swizzle");
  // 128 bytes: rows 4 to 11 of the pattern.
  Gives(with_b({.start = 512, .stride = 1024, .swizzle = 1}),
        "matrix B starts at 512, 512 bytes into a pattern of 1024");
  Gives(with_b({.start = 512, .stride = 1024, .base = 4, .swizzle = 1}),
        kNothing);
  Gives(with_b({.start = 512, .stride = 1024, .swizzle = 2}), kNothing);
  Gives(with_b({.start = 64, .stride = 1024, .swizzle = 2}),
        "matrix B starts at 64, 64 bytes into a pattern of 512");
  Gives(with_b({.start = 96, .stride = 1024, .swizzle = 1}), kNothing);
  // 32 bytes of a row, of which 16 are left.
  Gives(with_b({.start = 112, .stride = 1024, .swizzle = 1}),
        "expected its first 32 bytes in the first row, of 128");
  Gives(with_b({.start = 256, .stride = 1024, .swizzle = 3}), kNothing);
  Gives(with_b({.start = 32, .stride = 1024, .swizzle = 3}),
        "matrix B starts at 32, 32 bytes into a pattern of 256");
  p = Parts();
  p.descriptors += "\tor.b64 \t%rd11, %rd11, 32768;\n";
  Gives(p, "with bits set that mean nothing");
  p = Parts();
  p.fill = FillShared(4080) + kProxyFence + kBarrier;
  Gives(p, "element (63, 8) of A: shared byte 4080 was never written");
}

TEST_CASE("numbers of registers to move are multiples of 8") {
  Parts p;
  p.set +=
      "\tsetmaxnreg.dec.sync.aligned.u32 \t40;\n"
      "\tsetmaxnreg.inc.sync.aligned.u32 \t240;\n";
  Gives(p, kNothing);
  p.set += "\tsetmaxnreg.inc.sync.aligned.u32 \t244;\n";
  Gives(p, "a number of registers of 244");
}

}  // namespace
}  // namespace stowage::testing::ptx
