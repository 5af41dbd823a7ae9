// The interpreter of PTX, on kernels written by hand: what instructions compute.

#include "tests/gpu/ptx/ptx_machine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_numbers.h"
#include "tests/gpu/ptx/written_kernel.h"

namespace stowage::testing::ptx {
namespace {

// What an instruction makes of operands, as bits. %d is the result, %a, %b, %c the
// operands, of the registers that `types` names: "rrf" for a result in %r and operands
// in %r and %f.
uint64_t Compute(const std::string& name, const std::string& types,
                 const std::vector<uint64_t>& operands) {
  const auto prefix = [](char type) -> std::string {
    return type == 'h'   ? "%rs"
           : type == 'r' ? "%r"
           : type == 'f' ? "%f"
           : type == 'd' ? "%rd"
           : type == 'g' ? "%fd"
                         : "%p";
  };
  const auto suffix = [](char type) {
    return type == 'h'   ? "u16"
           : type == 'r' ? "u32"
           : type == 'f' ? "f32"
           : type == 'd' ? "u64"
                         : "f64";
  };
  std::string body;
  std::string instruction = StrCat("\t", name, " ", prefix(types[0]), "8");
  for (size_t i = 0; i < operands.size(); ++i) {
    const char type = types[i + 1];
    if (type == 'p') {
      body += StrCat("\tld.global.u32 %r", 20 + i, ", [%rd3+", 8 * i,
                     "];\n\tsetp.ne.u32 %p", 1 + i, ", %r", 20 + i, ", 0;\n");
      instruction += StrCat(", %p", 1 + i);
      continue;
    }
    const size_t number = type == 'd' ? 6 + i : 1 + i;
    body += StrCat("\tld.global.", suffix(type), " ", prefix(type), number,
                   ", [%rd3+", 8 * i, "];\n");
    instruction += StrCat(", ", prefix(type), number);
  }
  // 8 is a free register of each kind but %rd and %r.
  if (types[0] == 'p') {
    body += instruction + ";\n\tselp.u32 %r9, 1, 0, %p8;\n" +
            "\tst.global.u32 [%rd4], %r9;";
  } else {
    if (types[0] == 'd') {
      instruction.replace(instruction.find("%rd8"), 4, "%rd18");
    }
    body +=
        StrCat(instruction, ";\n\tst.global.", suffix(types[0]), " [%rd4], ",
               prefix(types[0]), types[0] == 'd' ? "18" : "8", ";");
  }
  std::vector<uint64_t> in(operands);
  in.resize(8);
  const Outcome outcome = Run(body, in);
  INFO(body);
  REQUIRE(outcome.wrong == "");
  for (size_t lane = 0; lane < kLanes; ++lane) {
    REQUIRE(outcome.out[8 * lane] == outcome.out[0]);
  }
  return outcome.out[0];
}

uint64_t F(float x) { return Word(x); }
uint64_t G(double x) { return Word(x); }

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint64_t kMinus1 = 0xFFFFFFFF;

TEST_CASE("integers") {
  struct Row {
    const char* name;
    const char* types;
    std::vector<uint64_t> operands;
    uint64_t want;
  };
  const Row rows[] = {
      {"add.s16", "hhh", {0xFFFF, 3}, 2},
      {"add.s32", "rrr", {kMinus1, 3}, 2},
      {"add.s64", "ddd", {~uint64_t{0}, 3}, 2},
      {"sub.s16", "hhh", {2, 3}, 0xFFFF},
      {"sub.s32", "rrr", {2, 3}, kMinus1},
      {"sub.s64", "ddd", {2, 3}, ~uint64_t{0}},
      {"mul.lo.s16", "hhh", {0x1234, 0x100}, 0x3400},
      {"mul.lo.s32", "rrr", {0x12345678, 0x100}, 0x34567800},
      {"mul.lo.s64",
       "ddd",
       {uint64_t{1} << 40, uint64_t{1} << 23},
       uint64_t{1} << 63},
      {"mul.hi.u32", "rrr", {kMinus1, kMinus1}, 0xFFFFFFFE},
      {"mul.hi.s32", "rrr", {kMinus1, 2}, kMinus1},
      {"mul.wide.s32", "drr", {kMinus1, 7}, static_cast<uint64_t>(-7)},
      {"mul.wide.u32", "drr", {kMinus1, 7}, kMinus1 * 7},
      {"mul.wide.u16", "rhh", {0xFFFF, 0xFFFF}, 0xFFFE0001},
      {"mad.lo.s32", "rrrr", {5, kMinus1, 3}, static_cast<uint32_t>(-2)},
      {"div.s32",
       "rrr",
       {static_cast<uint32_t>(-7), 2},
       static_cast<uint32_t>(-3)},
      {"rem.s32", "rrr", {static_cast<uint32_t>(-7), 2}, kMinus1},
      {"div.u32", "rrr", {kMinus1, 2}, 0x7FFFFFFF},
      {"rem.u32", "rrr", {kMinus1, 10}, 5},
      {"div.s64",
       "ddd",
       {static_cast<uint64_t>(-7), 2},
       static_cast<uint64_t>(-3)},
      {"rem.s64",
       "ddd",
       {static_cast<uint64_t>(-7), 4},
       static_cast<uint64_t>(-3)},
      {"div.u64", "ddd", {~uint64_t{0}, 16}, ~uint64_t{0} >> 4},
      {"rem.u64", "ddd", {~uint64_t{0}, 16}, 15},
      {"min.s32", "rrr", {kMinus1, 1}, kMinus1},
      {"min.u32", "rrr", {kMinus1, 1}, 1},
      {"max.s32", "rrr", {kMinus1, 1}, 1},
      {"max.u32", "rrr", {kMinus1, 1}, kMinus1},
      {"min.s16", "hhh", {0xFFFF, 1}, 0xFFFF},
      {"max.u16", "hhh", {0xFFFF, 1}, 0xFFFF},
      {"min.s64", "ddd", {~uint64_t{0}, 1}, ~uint64_t{0}},
      {"max.u64", "ddd", {~uint64_t{0}, 1}, ~uint64_t{0}},
      {"neg.s32", "rr", {5}, static_cast<uint32_t>(-5)},
      {"neg.s16", "hh", {5}, 0xFFFB},
      {"neg.s64", "dd", {5}, static_cast<uint64_t>(-5)},
      {"abs.s32", "rr", {static_cast<uint32_t>(-5)}, 5},
      {"abs.s16", "hh", {0xFFFB}, 5},
      {"abs.s64", "dd", {static_cast<uint64_t>(-5)}, 5},
      {"and.b32", "rrr", {0xFF00, 0x0FF0}, 0x0F00},
      {"and.b16", "hhh", {0xFF00, 0x0FF0}, 0x0F00},
      {"and.b64", "ddd", {0xFF00, 0x0FF0}, 0x0F00},
      {"or.b32", "rrr", {0xFF00, 0x0FF0}, 0xFFF0},
      {"or.b16", "hhh", {0xFF00, 0x0FF0}, 0xFFF0},
      {"or.b64", "ddd", {0xFF00, 0x0FF0}, 0xFFF0},
      {"xor.b32", "rrr", {0xFF00, 0x0FF0}, 0xF0F0},
      {"xor.b64", "ddd", {0xFF00, 0x0FF0}, 0xF0F0},
      {"not.b32", "rr", {0xFF00}, 0xFFFF00FF},
      {"not.b64", "dd", {0xFF00}, ~uint64_t{0xFF00}},
      // Shifts by the width or more leave nothing, or the sign.
      {"shl.b32", "rrr", {1, 31}, 0x80000000},
      {"shl.b32", "rrr", {1, 32}, 0},
      {"shl.b64", "ddr", {1, 63}, uint64_t{1} << 63},
      {"shl.b64", "ddr", {1, 64}, 0},
      {"shr.u32", "rrr", {0x80000000, 31}, 1},
      {"shr.u32", "rrr", {0x80000000, 99}, 0},
      {"shr.s32", "rrr", {0x80000000, 99}, kMinus1},
      {"shr.s32", "rrr", {0x80000000, 4}, 0xF8000000},
      {"shr.u64", "ddr", {uint64_t{1} << 63, 32}, uint64_t{1} << 31},
      {"shr.s64", "ddr", {uint64_t{1} << 63, 100}, ~uint64_t{0}},
      {"shr.u16", "hhr", {0x8000, 15}, 1},
      {"shr.s16", "hhr", {0x8000, 15}, 0xFFFF},
      {"popc.b32", "rr", {0xF0F0F0F0}, 16},
      {"clz.b32", "rr", {1}, 31},
      {"bfi.b32", "rrrrr", {0xFF, 0x12345678, 8, 8}, 0x1234FF78},
      {"bfi.b32", "rrrrr", {0xFF, 0x12345678, 28, 8}, 0xF2345678},
      {"bfi.b32", "rrrrr", {0xFF, 0x12345678, 8, 0}, 0x12345678},
      {"prmt.b32", "rrrr", {0x33221100, 0x77665544, 0x7430}, 0x77443300},
      {"prmt.b32", "rrrr", {0x000000FF, 0, 0x8888}, 0xFFFFFFFF},  // signs
      {"selp.b32", "rrrp", {5, 6, 1}, 5},
      {"selp.b32", "rrrp", {5, 6, 0}, 6},
      {"selp.f32", "fffp", {F(1), F(2), 0}, F(2)},
      {"selp.b64", "dddp", {5, 6, 1}, 5},
      {"selp.b16", "hhhp", {5, 6, 1}, 5},
      {"selp.f64", "gggp", {G(1), G(2), 0}, G(2)},
      {"and.pred", "ppp", {1, 0}, 0},
      {"or.pred", "ppp", {1, 0}, 1},
      {"xor.pred", "ppp", {1, 1}, 0},
      {"not.pred", "pp", {1}, 0},
      {"mov.u32", "rr", {77}, 77},
      {"mov.b32", "rf", {F(2)}, F(2)},
      {"mov.b64", "dg", {G(2)}, G(2)},
      {"setp.lt.s32", "prr", {kMinus1, 1}, 1},
      {"setp.lt.u32", "prr", {kMinus1, 1}, 0},
      {"setp.ge.s64", "pdd", {~uint64_t{0}, 1}, 0},
      {"setp.gt.u64", "pdd", {~uint64_t{0}, 1}, 1},
      {"setp.le.s16", "phh", {0xFFFF, 0}, 1},
      {"setp.ge.u16", "phh", {0xFFFF, 0}, 1},
      {"setp.eq.b32", "prr", {4, 4}, 1},
      {"setp.ne.s32", "prr", {4, 4}, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(Compute(row.name, row.types, row.operands) == row.want);
  }
}

TEST_CASE("floating point") {
  struct Row {
    const char* name;
    const char* types;
    std::vector<uint64_t> operands;
    uint64_t want;
  };
  const float tiny = std::numeric_limits<float>::denorm_min();
  const Row rows[] = {
      {"add.f32", "fff", {F(1), F(0x1p-24f)}, F(1)},
      {"add.rz.f32", "fff", {F(1), F(-0x1p-30f)}, F(1 - 0x1p-24f)},
      {"add.rz.f32", "fff", {F(-1), F(0x1p-30f)}, F(-1 + 0x1p-24f)},
      {"add.f32", "fff", {F(tiny), F(tiny)}, F(2 * tiny)},  // not flushed
      {"sub.f32", "fff", {F(1), F(3)}, F(-2)},
      {"mul.f32", "fff", {F(3), F(0.5f)}, F(1.5f)},
      {"mul.rn.f32", "fff", {F(3), F(0.5f)}, F(1.5f)},
      // (1 + 2^-12)^2 - 1: the last bit of the product counts.
      {"fma.rn.f32",
       "ffff",
       {F(1 + 0x1p-12f), F(1 + 0x1p-12f), F(-1)},
       F(0x1p-11f + 0x1p-24f)},
      {"fma.rz.f32", "ffff", {F(1), F(1), F(-0x1p-30f)}, F(1 - 0x1p-24f)},
      {"fma.rm.f32", "ffff", {F(1), F(1), F(-0x1p-30f)}, F(1 - 0x1p-24f)},
      {"fma.rm.f32", "ffff", {F(-1), F(1), F(-0x1p-30f)}, F(-1 - 0x1p-23f)},
      {"fma.rm.f32", "ffff", {F(1), F(1), F(0x1p-30f)}, F(1)},
      {"div.rn.f32", "fff", {F(1), F(3)}, F(1.0f / 3)},
      {"rcp.rn.f32", "ff", {F(3)}, F(1.0f / 3)},
      {"sqrt.rn.f32", "ff", {F(2)}, F(std::sqrt(2.0f))},
      {"neg.f32", "ff", {F(0)}, F(-0.0f)},
      {"abs.f32", "ff", {F(-2)}, F(2)},
      {"min.f32", "fff", {F(kNan), F(2)}, F(2)},
      {"max.f32", "fff", {F(2), F(kNan)}, F(2)},
      {"min.f32", "fff", {F(0), F(-0.0f)}, F(-0.0f)},
      {"max.f32", "fff", {F(-0.0f), F(0)}, F(0)},
      {"copysign.f32", "fff", {F(-1), F(5)}, F(-5)},
      {"add.f64", "ggg", {G(1), G(0x1p-52)}, G(1 + 0x1p-52)},
      {"fma.rn.f64", "gggg", {G(3), G(4), G(5)}, G(17)},
      {"div.rn.f64", "ggg", {G(1), G(3)}, G(1.0 / 3)},
      {"rcp.rn.f64", "gg", {G(3)}, G(1.0 / 3)},
      {"setp.lt.f32", "pff", {F(1), F(kNan)}, 0},
      {"setp.ltu.f32", "pff", {F(1), F(kNan)}, 1},
      {"setp.ne.f32", "pff", {F(1), F(kNan)}, 0},
      {"setp.neu.f32", "pff", {F(1), F(kNan)}, 1},
      {"setp.equ.f32", "pff", {F(1), F(2)}, 0},
      {"setp.geu.f32", "pff", {F(1), F(2)}, 0},
      {"setp.gtu.f32", "pff", {F(3), F(2)}, 1},
      {"setp.leu.f32", "pff", {F(3), F(2)}, 0},
      {"setp.nan.f32", "pff", {F(1), F(kNan)}, 1},
      {"setp.num.f32", "pff", {F(1), F(2)}, 1},
      {"setp.eq.f64", "pgg", {G(0.0), G(-0.0)}, 1},
      {"cvt.f64.f32", "gf", {F(1.5f)}, G(1.5)},
      {"cvt.rn.f32.f64", "fg", {G(1 + 0x1p-24)}, F(1)},  // a tie, to even
      {"cvt.rn.f32.f64", "fg", {G(1 + 0x1p-24 + 0x1p-50)}, F(1 + 0x1p-23f)},
      {"cvt.rn.f32.s32", "fr", {kMinus1}, F(-1)},
      {"cvt.rn.f32.u32", "fr", {kMinus1}, F(0x1p32f)},
      {"cvt.s16.s8", "hh", {0x1280}, 0xFF80},
      {"cvt.s16.s8", "hh", {0x127F}, 0x7F},
      {"cvt.s32.s8", "rr", {0x1280}, 0xFFFFFF80},
      {"cvt.rn.f32.s16", "fh", {0xFFFF}, F(-1)},
      {"cvt.rn.f32.u16", "fh", {0xFFFF}, F(65535)},
      {"cvt.rn.f32.s64", "fd", {~uint64_t{0}}, F(-1)},
      {"cvt.rn.f64.s64", "gd", {~uint64_t{0}}, G(-1)},
      {"cvt.rn.f64.u64", "gd", {~uint64_t{0}}, G(0x1p64)},
      {"cvt.rzi.s32.f32", "rf", {F(-2.7f)}, static_cast<uint32_t>(-2)},
      {"cvt.rzi.s32.f32", "rf", {F(3e9f)}, 0x7FFFFFFF},
      {"cvt.rzi.s32.f32", "rf", {F(-kInf)}, 0x80000000},
      {"cvt.rzi.s32.f32", "rf", {F(kNan)}, 0},
      {"cvt.rzi.u32.f64", "rg", {G(-2)}, 0},
      {"cvt.rzi.s64.f64", "dg", {G(-2.5)}, static_cast<uint64_t>(-2)},
      {"cvt.rzi.s64.f64", "dg", {G(std::nan(""))}, uint64_t{1} << 63},
      {"cvt.rzi.f32.f32", "ff", {F(-2.7f)}, F(-2)},
      {"cvt.rni.f32.f32", "ff", {F(2.5f)}, F(2)},
      {"cvt.rmi.f32.f32", "ff", {F(-2.1f)}, F(-3)},
      {"cvt.rpi.f32.f32", "ff", {F(2.1f)}, F(3)},
      {"cvt.rni.f64.f64", "gg", {G(3.5)}, G(4)},
      {"cvt.sat.f32.f32", "ff", {F(7)}, F(1)},
      {"cvt.sat.f32.f32", "ff", {F(kNan)}, F(0)},
      {"cvt.rn.bf16x2.f32", "rff", {F(1), F(-2)}, 0x3F80C000},
      {"cvt.s64.s32", "dr", {kMinus1}, ~uint64_t{0}},
      {"cvt.u64.u32", "dr", {kMinus1}, kMinus1},
      {"cvt.s32.s16", "rh", {0xFFFF}, kMinus1},
      {"cvt.u32.u16", "rh", {0xFFFF}, 0xFFFF},
      {"cvt.u16.u32", "hr", {0x12345}, 0x2345},
      {"cvt.u32.u64", "rd", {uint64_t{0x123456789}}, 0x23456789},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(Compute(row.name, row.types, row.operands) == row.want);
  }
}

TEST_CASE("immediates have the size that they are moved in") {
  const Outcome outcome = Run(R"(
	mov.b32 	%r1, -5;
	mov.b64 	%rd6, {%r0, 1073741824};
	mov.b64 	%rd7, {7, %r0};
	st.global.u32 	[%rd4], %r1;
	st.global.u64 	[%rd4+8], %rd6;
	st.global.u64 	[%rd4+16], %rd7;)");
  REQUIRE(outcome.wrong == "");
  for (uint64_t lane = 0; lane < 32; ++lane) {
    CHECK(outcome.out[8 * lane] == 0xFFFFFFFB);
    CHECK(outcome.out[8 * lane + 1] == (uint64_t{1} << 62 | lane));
    CHECK(outcome.out[8 * lane + 2] == (lane << 32 | 7));
  }
}

TEST_CASE("16-bit numbers: all that there are go to f32 and back") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float f16 = FromF16(half), bf16 = FromBF16(half);
    if (f16 == f16) REQUIRE(ToF16(f16) == half);
    if (bf16 == bf16) REQUIRE(ToBF16(bf16) == half);
  }
  CHECK(FromF16(0x3C00) == 1);
  CHECK(FromF16(0x0001) == 0x1p-24f);
  CHECK(FromF16(0x7BFF) == 65504);
  CHECK(FromBF16(0xC000) == -2);
  // Half way between two numbers: to the even one; above, to the next.
  CHECK(ToF16(1 + 0x1p-11f) == 0x3C00);
  CHECK(ToF16(1 + 3 * 0x1p-11f) == 0x3C02);
  CHECK(ToF16(1 + 0x1p-11f + 0x1p-20f) == 0x3C01);
  CHECK(ToF16(0x1p-25f) == 0);
  CHECK(ToF16(0x1.8p-25f) == 1);
  CHECK(ToF16(65520) == 0x7C00);
  CHECK(ToF16(65519) == 0x7BFF);
  CHECK(ToF16(kNan) == 0x7FFF);
  CHECK(ToBF16(1 + 0x1p-8f) == 0x3F80);
  CHECK(ToBF16(1 + 3 * 0x1p-8f) == 0x3F82);
  CHECK(ToBF16(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(ToBF16(kNan) == 0x7FFF);
  CHECK(Compute("cvt.rn.f16.f32", "hf", {F(-65504)}) == 0xFBFF);
  CHECK(Compute("cvt.rn.bf16.f32", "hf", {F(-2)}) == 0xC000);
  CHECK(Compute("cvt.f32.f16", "fh", {0xFBFF}) == F(-65504));
}

TEST_CASE("approximations are within their bounds, and not exact") {
  int differ = 0;
  for (int i = 1; i < 2000; ++i) {
    const float x = static_cast<float>(i) * 0.0137f;
    const double exact = std::exp2(static_cast<double>(x));
    CHECK(std::fabs(static_cast<double>(Exp2(x)) / exact - 1) < 0x1p-22);
    differ += Exp2(x) != static_cast<float>(exact) ? 1 : 0;
    const double one =
        static_cast<double>(ReciprocalFlushing(x)) * static_cast<double>(x);
    CHECK(std::fabs(one - 1) < 0x1p-23);
    const double ratio = static_cast<double>(DivideApproximately(x, 7)) /
                         (static_cast<double>(x) / 7);
    CHECK(std::fabs(ratio - 1) < 0x1p-22);
    CHECK(std::fabs(ReciprocalFlushing(static_cast<double>(x)) *
                        static_cast<double>(x) -
                    1) < 0x1p-19);
  }
  CHECK(differ > 500);
  CHECK(Exp2(-3) == 0.125f);
  CHECK(Exp2Flushing(-130) == 0);
  CHECK(Exp2(-kInf) == 0);
  CHECK(Exp2(kInf) == kInf);
  CHECK(ReciprocalFlushing(0x1p-140f) == kInf);
  CHECK(ReciprocalFlushing(kInf) == 0);
  CHECK(DivideApproximately(1, 0x1.1p127f) == 0);
  CHECK(Compute("ex2.approx.ftz.f32", "ff", {F(4)}) == F(16));
  CHECK(Compute("rcp.approx.ftz.f32", "ff", {F(4)}) == F(0.25f));
  CHECK(Compute("div.approx.f32", "fff", {F(4), F(2)}) == F(2));
  CHECK(Compute("rcp.approx.ftz.f64", "gg", {G(4)}) == G(0.25));
}

// --- What the lanes of a warp do together -----------------------------------------

TEST_CASE("shuffles and votes") {
  for (uint32_t mask = 0; mask < 32; ++mask) {
    const Outcome outcome =
        Run(StrCat("\tshfl.sync.bfly.b32 %r1|%p1, %r0, ", mask, ", 31, -1;\n",
                   "\tshfl.sync.idx.b32 %r2|%p2, %r0, ", mask, ", 31, -1;\n",
                   "\tshfl.sync.idx.b32 %r3|%p3, %r0, ", mask,
                   ", 0x1807, -1;\n", "\tsetp.gt.u32 %p4, %r0, ", mask, ";\n",
                   "\tvote.sync.ballot.b32 %r4, %p4, -1;\n",
                   "\tst.global.v4.u32 [%rd4], {%r1, %r2, %r3, %r4};"));
    REQUIRE(outcome.wrong == "");
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t got[4];
      std::memcpy(got, &outcome.out[8 * lane], sizeof(got));
      CHECK(got[0] == (lane ^ mask));
      CHECK(got[1] == mask);
      CHECK(got[2] == (lane & ~7u) + (mask & 7));  // in groups of eight
      CHECK(got[3] == (mask == 31 ? 0 : ~uint32_t{0} << (mask + 1)));
    }
  }
}

// The registers of a fragment of mma.m16n8k16, by lane: PTX ISA, figures of "Matrix
// Fragments for mma.m16n8k16 with floating point type".
struct Fragments {
  uint16_t a[32][8], b[32][4];
  float c[32][4];
};

template <typename F>
Fragments Split(const F& a, const F& b, const float (&c)[16][8]) {
  Fragments f;
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const bool upper = (0 <= i && i < 2) || (4 <= i && i < 6);
      const int row = upper ? group : group + 8;
      const int column = in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
      f.a[lane][i] = a(row, column);
    }
    for (int i = 0; i < 4; ++i) {
      const int row = in_group * 2 + (i & 1) + (i < 2 ? 0 : 8);
      f.b[lane][i] = b(row, group);
      f.c[lane][i] = c[i < 2 ? group : group + 8][in_group * 2 + (i & 1)];
    }
  }
  return f;
}

// Multiplies matrices of small integers whose elements are given as bits.
template <typename A, typename B>
void CheckProduct(const char* type, const A& a, const B& b) {
  const bool is_half = std::string(type) == "f16";
  const auto to_float = is_half ? FromF16 : FromBF16;
  const auto to_bits = is_half ? ToF16 : ToBF16;
  float c[16][8];
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) c[i][j] = static_cast<float>(10 * i - j);
  }
  const auto as = [&](const auto& matrix) {
    return
        [&](int i, int j) { return to_bits(static_cast<float>(matrix(i, j))); };
  };
  Fragments f;
  {
    const auto a_bits = as(a);
    const auto b_bits = as(b);
    const auto either = [&](bool first) {
      return [&, first](int i, int j) {
        return first ? a_bits(i, j) : b_bits(i, j);
      };
    };
    f = Split(either(true), either(false), c);
  }
  std::vector<uint64_t> in(8 * 32);
  for (size_t lane = 0; lane < 32; ++lane) {
    auto* const to = reinterpret_cast<std::byte*>(&in[8 * lane]);
    std::memcpy(to, f.a[lane], 16);
    std::memcpy(to + 16, f.b[lane], 8);
    std::memcpy(to + 32, f.c[lane], 16);
  }
  const Outcome outcome =
      Run(StrCat("\tld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd3];\n"
                 "\tld.global.v2.u32 {%r5,%r6}, [%rd3+16];\n"
                 "\tld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd3+32];\n"
                 "\tmma.sync.aligned.m16n8k16.row.col.f32.",
                 type, ".", type,
                 ".f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
                 "{%f1,%f2,%f3,%f4};\n"
                 "\tst.global.v4.f32 [%rd4], {%f1,%f2,%f3,%f4};"),
          in);
  REQUIRE(outcome.wrong == "");
  for (size_t lane = 0; lane < 32; ++lane) {
    float d[4];
    std::memcpy(d, &outcome.out[8 * lane], sizeof(d));
    for (int i = 0; i < 4; ++i) {
      const int row = static_cast<int>(lane / 4) + (i < 2 ? 0 : 8);
      const int column = static_cast<int>(lane % 4) * 2 + i % 2;
      float want = c[row][column];
      for (int k = 0; k < 16; ++k) {
        want +=
            static_cast<float>(a(row, k)) * static_cast<float>(b(k, column));
      }
      REQUIRE(d[i] == want);
    }
  }
  CHECK(to_float(to_bits(3)) == 3);
}

TEST_CASE("each element of the operands of mma is where the ISA says") {
  const auto all_a = [](int i, int k) { return (i * 5 + k * 3) % 11 - 5; };
  const auto all_b = [](int k, int j) { return (k * 7 + j) % 13 - 6; };
  for (const char* const type : {"bf16", "f16"}) {
    CAPTURE(type);
    CheckProduct(type, all_a, all_b);
    for (int i = 0; i < 16; ++i) {
      for (int k = 0; k < 16; ++k) {
        CheckProduct(
            type, [=](int r, int c) { return r == i && c == k ? 1 : 0; },
            all_b);
      }
    }
    for (int k = 0; k < 16; ++k) {
      for (int j = 0; j < 8; ++j) {
        CheckProduct(type, all_a,
                     [=](int r, int c) { return r == k && c == j ? 1 : 0; });
      }
    }
  }
}

TEST_CASE("each element of matrices comes to the lane that the ISA says") {
  // Row j of matrix i is lane 8 i + j's; its elements are 8 times that, and so on.
  std::vector<uint64_t> in(8 * 32);
  for (size_t lane = 0; lane < 32; ++lane) {
    uint16_t row[8];
    for (size_t i = 0; i < 8; ++i) row[i] = static_cast<uint16_t>(8 * lane + i);
    std::memcpy(&in[8 * lane], row, sizeof(row));
  }
  for (const bool transposed : {false, true}) {
    const Outcome outcome =
        Run(StrCat("\tmov.u32 %r1, stowage_dynamic_shared;\n"
                   "\tshl.b32 %r2, %r0, 4;\n"
                   "\tadd.s32 %r3, %r1, %r2;\n"
                   "\tld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%rd3];\n"
                   "\tst.shared.v4.u32 [%r3], {%r4,%r5,%r6,%r7};\n"
                   "\tbar.warp.sync -1;\n"
                   "\tldmatrix.sync.aligned.m8n8.x4",
                   transposed ? ".trans" : "",
                   ".shared.b16 {%r4,%r5,%r6,%r7}, [%r3];\n"
                   "\tst.global.v4.u32 [%rd4], {%r4,%r5,%r6,%r7};"),
            in, {.dynamic_shared = 512});
    REQUIRE(outcome.wrong == "");
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint16_t got[4][2];
      std::memcpy(got, &outcome.out[8 * lane], sizeof(got));
      for (uint32_t matrix = 0; matrix < 4; ++matrix) {
        for (uint32_t half = 0; half < 2; ++half) {
          const uint32_t i = lane / 4, j = lane % 4 * 2 + half;
          const uint32_t row = transposed ? j : i, column = transposed ? i : j;
          CHECK(got[matrix][half] == 64 * matrix + 8 * row + column);
        }
      }
    }
  }
}

TEST_CASE("dynamic shared memory is aligned as declared, and to no more") {
  const char* const kBody =
      "\tmov.u32 %r1, stowage_dynamic_shared;\n"
      "\tst.global.u32 [%rd4], %r1;";
  // Alone, and behind another array.
  for (const std::string& before :
       {std::string(), std::string("\t.shared .align 4 .b8 one[1020];\n")}) {
    for (const uint32_t alignment : {4u, 16u, 128u, 512u, 1024u}) {
      CAPTURE(before);
      CAPTURE(alignment);
      const Outcome outcome = Run(
          before + kBody, {}, {.dynamic_shared = 64, .alignment = alignment});
      REQUIRE(outcome.wrong == "");
      CHECK(outcome.out[0] % alignment == 0);
      // No pattern of chunks that are exchanged is wider than 1,024 bytes.
      if (alignment < 1024) CHECK(outcome.out[0] % (2 * alignment) != 0);
    }
  }
}

}  // namespace
}  // namespace stowage::testing::ptx
