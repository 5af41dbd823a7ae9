// Mbarriers in the interpreter of PTX, on kernels written by hand: when phases end, what
// waits say, and what is reported.

#include "tests/gpu/ptx/ptx_mbarriers.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/gpu/ptx/written_kernel.h"

namespace stowage::testing::ptx {
namespace {

// Word i of `out` of the first thread: whether the phase of this parity is over.
std::string Look(int word, int parity) {
  return StrCat(
      "\tmbarrier.test_wait.parity.shared::cta.b64 \t%p1, [%r30], ", parity,
      ";\n\tselp.u32 \t%r1, 1, 0, %p1;\n\t@%p8 st.global.u32 \t[%rd4+",
      8 * word, "], %r1;\n");
}
// The same of the state in this register.
std::string LookFor(int word, const std::string& state) {
  return StrCat(
      "\tmbarrier.test_wait.shared::cta.b64 \t%p1, [%r30], ", state,
      ";\n\tselp.u32 \t%r1, 1, 0, %p1;\n\t@%p8 st.global.u32 \t[%rd4+",
      8 * word, "], %r1;\n");
}
const std::string kInit = kSetUp + Init(0, 3) + kMeet;

// In several orders of warps.
Outcome Gives(const std::string& body, const char* what,
              uint32_t threads = 32) {
  Outcome outcome;
  for (const uint64_t seed : {3, 2, 1, 0}) {
    CAPTURE(seed);
    outcome = RunOn(body, std::vector<uint64_t>(1024), 1024,
                    {.threads = threads, .dynamic_shared = 1024, .seed = seed});
    if (*what == '\0') {
      CHECK(outcome.wrong == "");
    } else {
      Says(outcome, what);
    }
  }
  return outcome;
}
constexpr const char* kNothing = "";

TEST_CASE("a phase ends with its last arrival, and its parity turns") {
  // Of a new mbarrier the phase before is over.
  const std::string first =
      "\t@%p8 mbarrier.arrive.shared::cta.b64 \t%rd10, [%r30];\n";
  const std::string two =
      "\t@%p8 mbarrier.arrive.release.cta.shared::cta.b64 \t%rd11, [%r30], "
      "2;\n";
  const Outcome outcome = Gives(
      kInit + Look(0, 0) + Look(1, 1) + first + Look(2, 0) + two + Look(3, 0) +
          Look(4, 1) + two + Look(5, 1) + first + Look(6, 1) + Look(7, 0),
      kNothing);
  const std::vector<uint64_t> expected = {0, 1, 0, 1, 0, 0, 1, 0};
  for (size_t i = 0; i < 8; ++i) CHECK(outcome.out[i] == expected[i]);
}

TEST_CASE("a state is that of the phase which its arrival belongs to") {
  // Arrivals of a whole warp, more than a phase: 32 of 20 each.
  const Outcome outcome = Gives(
      kSetUp + Init(0, 20) + kMeet +
          "\tmbarrier.arrive.release.cta.shared::cta.b64 \t%rd10, [%r30];\n" +
          LookFor(0, "%rd10") +
          "\tmbarrier.test_wait.shared::cta.b64 \t%p1, [%r30], %rd10;\n"
          "\tvote.sync.ballot.b32 \t%r2, %p1, -1;\n"
          "\t@%p8 st.global.u32 \t[%rd4+8], %r2;\n" +
          // Eight more end the second phase.
          "\tsetp.lt.u32 \t%p2, %r0, 8;\n"
          "\t@%p2 mbarrier.arrive.noComplete.shared::cta.b64 \t%rd11, [%r30], "
          "1;\n",
      "an arrival that may not end its phase");
  CHECK(outcome.out[0] == 1);
  CHECK(outcome.out[1] == 0xFFFFF);
  Gives(kInit +
            "\t@%p8 mbarrier.arrive.noComplete.shared::cta.b64 \t%rd11, "
            "[%r30], 2;\n",
        kNothing);
}

TEST_CASE("bytes that are expected keep a phase from ending") {
  const std::string arrive =
      "\t@%p8 mbarrier.arrive.shared::cta.b64 \t_, [%r30], 3;\n";
  const Outcome outcome =
      Gives(kInit + kFenceInit +
                "\t@%p8 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 "
                "\t[%r30], 32;\n" +
                CopyBytes(64, 0, 16, 0) + CopyBytes(80, 0, 16, 0) + arrive +
                Await(0, 0) + Look(0, 0) + Look(1, 1),
            kNothing);
  CHECK(outcome.out[0] == 1);
  CHECK(outcome.out[1] == 0);
}

TEST_CASE("generic addresses and short spellings are understood") {
  const std::string generic =
      "\tcvt.u64.u32 \t%rd10, %r30;\n\tcvta.shared.u64 \t%rd10, %rd10;\n";
  Gives(kSetUp + generic + "\t@%p8 mbarrier.init.b64 \t[%rd10], 1;\n" + kMeet +
            "\t@%p8 mbarrier.arrive.b64 \t_, [%rd10];\n" + Await(0, 0) + kMeet +
            "\t@%p8 mbarrier.inval.shared.b64 \t[%r30];\n" +
            "\t@%p8 mbarrier.init.shared.b64 \t[%r30], 2;\n",
        kNothing);
  Gives(kSetUp + "\tmbarrier.init.b64 \t[%rd1], 1;\n",
        "which is not in shared memory");
}

TEST_CASE("who waits comes after who arrived, and no others") {
  // Thread 0 writes and arrives; threads of another warp wait and read.
  const std::string write =
      "\tmov.u32 \t%r1, 7;\n\tst.shared.u32 \t[%r30+64], %r1;\n";
  const std::string read =
      "\tld.shared.u32 \t%r2, [%r30+64];\n"
      "\tst.global.u32 \t[%rd4], %r2;\n";
  const auto two = [&](const std::string& writer, const std::string& reader) {
    return kSetUp + Init(0, 1) + kMeet +
           "\tsetp.lt.u32 \t%p2, %r0, 32;\n\t@%p2 bra \t$L_write;\n" + reader +
           "\tbra.uni \t$L_end;\n$L_write:\n\t@!%p8 bra \t$L_end;\n" + writer +
           "$L_end:\n";
  };
  const Outcome outcome =
      Gives(two(write + Arrive(0), Await(0, 0) + read), kNothing, 64);
  for (size_t i = 32; i < 64; ++i) CHECK(outcome.out[8 * i] == 7);
  Gives(two(Arrive(0) + write, Await(0, 0) + read), "shared byte 64", 64);
  Gives(two(write + Arrive(0), read), "shared byte 64", 64);
  const std::string relaxed =
      "\tmbarrier.arrive.relaxed.cta.shared::cta.b64 \t_, [%r30];\n";
  Gives(two(write + relaxed, Await(0, 0) + read), "shared byte 64", 64);
  // One lane waits, and all read.
  const std::string one =
      "\tsetp.ne.u32 \t%p3, %r0, 40;\n\t@%p3 bra \t$L_wait;\n" + Await(0, 0) +
      "$L_wait:\n";
  Gives(two(write + Arrive(0), one + read), "shared byte 64", 64);
  Gives(two(write + Arrive(0), one + "\tbar.warp.sync \t-1;\n" + read),
        kNothing, 64);
  // One that has waited arrives elsewhere.
  const std::string chain =
      kSetUp + Init(0, 1) + Init(8, 1) + kMeet +
      "\tsetp.ge.u32 \t%p2, %r0, 32;\n\t@!%p2 bra \t$L_write;\n"
      "\tsetp.ge.u32 \t%p3, %r0, 64;\n\t@%p3 bra \t$L_last;\n"
      "\tsetp.ne.u32 \t%p3, %r0, 40;\n\t@%p3 bra \t$L_end;\n" +
      Await(0, 0) + Arrive(8) + "\tbra.uni \t$L_end;\n$L_last:\n" +
      Await(8, 0) + read + "\tbra.uni \t$L_end;\n$L_write:\n" +
      "\t@!%p8 bra \t$L_end;\n" + write + Arrive(0) + "$L_end:\n";
  Gives(chain, kNothing, 96);
  // A named barrier hands on what one of its warps knows.
  const std::string three =
      kSetUp + Init(0, 1) + kMeet +
      "\tsetp.ge.u32 \t%p2, %r0, 32;\n\t@!%p2 bra \t$L_write;\n"
      "\tsetp.ge.u32 \t%p3, %r0, 64;\n\t@%p3 bra \t$L_last;\n" +
      Await(0, 0) + "$L_last:\n\tbar.sync \t1, 64;\n" + read +
      "\tbra.uni \t$L_end;\n$L_write:\n\t@!%p8 bra \t$L_end;\n" + write +
      Arrive(0) + "$L_end:\n";
  Gives(three, kNothing, 96);
}

TEST_CASE("one lane's arrival is not that of its warp") {
  // All lanes of warp 0 write; one arrives for them; warp 1 reads what lane 5 wrote.
  const auto kernel = [&](const std::string& sync) {
    return kSetUp + Init(0, 1) + kMeet +
           "\tsetp.ge.u32 \t%p2, %r0, 32;\n\t@%p2 bra \t$L_read;\n"
           "\tshl.b32 \t%r2, %r0, 2;\n\tadd.s32 \t%r2, %r2, %r30;\n"
           "\tst.shared.u32 \t[%r2+64], %r0;\n" +
           sync +
           "\t@%p8 mbarrier.arrive.shared::cta.b64 \t_, [%r30];\n"
           "\tbra.uni \t$L_end;\n$L_read:\n" +
           Await(0, 0) + "\tld.shared.u32 \t%r2, [%r30+84];\n$L_end:\n";
  };
  Gives(kernel("\tbar.warp.sync \t-1;\n"), kNothing, 64);
  Gives(kernel(""), "shared byte 84 was written by warp 0 lane 5", 64);
}

TEST_CASE("lanes of a warp may wait for each other") {
  const std::string first = "\t@%p8 bra \t$L_other;\n", arrive = Arrive(0);
  Gives(kSetUp + Init(0, 1) + kMeet + first + Await(0, 0) +
            "\tbra.uni \t$L_end;\n$L_other:\n" + arrive + "$L_end:\n",
        kNothing);
}

TEST_CASE("a look that is in vain lets the warp do other things") {
  // Warp 0 looks for what comes only after it went on.
  Gives(kSetUp + Init(0, 1) + Init(8, 1) + kMeet +
            "\tsetp.ge.u32 \t%p2, %r0, 32;\n\t@%p2 bra \t$L_second;\n"
            "\tmbarrier.try_wait.parity.shared::cta.b64 \t%p3, [%r30], 0, "
            "1000;\n"
            "\t@%p8 mbarrier.arrive.shared::cta.b64 \t_, [%r30+8];\n" +
            Await(0, 0) + "\tbra.uni \t$L_end;\n$L_second:\n" + Await(8, 0) +
            "\tsetp.eq.u32 \t%p4, %r0, 32;\n"
            "\t@%p4 mbarrier.arrive.shared::cta.b64 \t_, [%r30];\n$L_end:\n",
        kNothing, 64);
}

TEST_CASE("warps that wait for ever are named, with what is missing") {
  Gives(kInit + "\t@%p8 mbarrier.arrive.shared::cta.b64 \t_, [%r30];\n" +
            Await(0, 0),
        "for the mbarrier at 0, whose phase 0 waits for 2 "
        "arrivals and 0 bytes");
  // One waits at a barrier, the other for bytes.
  Gives(kSetUp + Init(0, 1) + kMeet + Expect(0, 64) +
            "\tsetp.ge.u32 \t%p2, %r0, 32;\n\t@%p2 bra \t$L_second;\n" +
            Await(0, 0) + "$L_second:\n" + kMeet,
        "for the mbarrier at 0, whose phase 0 waits for 0 arrivals and 64 "
        "bytes, 1 at line",
        64);
  // The other parity.
  Gives(kSetUp + Init(0, 1) + kMeet + Expect(0, 0) + Await(0, 0) + Await(0, 1),
        "whose phase 1 waits for 1 arrivals");
}

TEST_CASE("an mbarrier is initialised, where it may be, before it is used") {
  Gives(kSetUp + Await(8, 0), "there is no mbarrier at 8");
  Gives(kSetUp + Init(4, 1), "8 bytes at address 4 is not aligned");
  Gives(kSetUp + Init(1024, 1), "8 bytes at 1024 of 1024 bytes of shared");
  Gives(kSetUp + Init(0, 0),
        "an mbarrier for 0 arrivals; expected 1 to 1048575");
  Gives(kSetUp + Init(0, 1048576), "an mbarrier for 1048576 arrivals");
  Gives(kSetUp + Init(0, 1048575) + Init(0, 1),
        "which is one already; expected mbarrier.inval before");
  Gives(kSetUp + Init(0, 1) + Arrive(0),
        "a race: the mbarrier at 0 was initialised by warp 0 lane 0 and is "
        "used by warp 0 lane 1");
  Gives(kSetUp + Init(0, 64) + "\tbar.warp.sync \t-1;\n" + Arrive(0),
        "mbarrier", 64);
  Gives(kSetUp + Init(0, 64) + kMeet + Arrive(0), kNothing, 64);
  Gives(kInit + "\t@%p8 mbarrier.inval.shared.b64 \t[%r30];\n" + Arrive(0),
        "there is no mbarrier at 0");
}

TEST_CASE("the bytes of an mbarrier are no data") {
  Gives(kInit + "\tld.shared.u32 \t%r1, [%r30+4];\n",
        "shared byte 4 is part of an mbarrier, and no data");
  Gives(kInit + "\t@%p8 st.shared.u32 \t[%r30], %r0;\n",
        "shared byte 0 is part of an mbarrier");
  // After inval they may be written, but have no value.
  const std::string invalidated =
      kInit + "\t@%p8 mbarrier.inval.shared::cta.b64 \t[%r30];\n";
  Gives(invalidated + "\t@%p8 st.shared.u32 \t[%r30], %r0;\n", kNothing);
  Gives(invalidated + "\t@%p8 ld.shared.u32 \t%r1, [%r30];\n",
        "shared byte 0 was never written");
  // Others wait for that.
  const std::string other =
      "\tsetp.eq.u32 \t%p2, %r0, 32;\n\t@%p2 st.shared.u32 \t[%r30], %r0;\n";
  Gives(invalidated + other, "shared byte 0", 64);
  Gives(invalidated + kMeet + other, kNothing, 64);
}

TEST_CASE("counts, states and parities must be in range") {
  Gives(kInit + "\t@%p8 mbarrier.arrive.shared::cta.b64 \t_, [%r30], 4;\n",
        "4 arrivals at the mbarrier at 0, whose phase 0 waits for 3");
  Gives(kInit + "\t@%p8 mbarrier.arrive.shared::cta.b64 \t_, [%r30], 0;\n",
        "0 arrivals at");
  // All have arrived, and bytes are missing.
  Gives(kSetUp + Init(0, 1) + kMeet + Expect(0, 16) + Expect(0, 16),
        "1 arrivals at the mbarrier at 0, whose phase 0 waits for 0 arrivals "
        "and 16 bytes");
  Gives(kInit + Expect(0, 1048575) + Expect(0, 1),
        "1048576 bytes are expected; a phase can count to 1048575");
  Gives(kInit + Look(0, 2), "a parity of 2");
  const std::string phase =
      "\t@%p8 mbarrier.arrive.shared::cta.b64 \t%rd10, [%r30], 3;\n";
  Gives(kInit + phase + LookFor(0, "%rd10"), "never wrote");
  const std::string others = "\tmov.u64 \t%rd10, 0;\n";
  Gives(kInit + others + phase + LookFor(0, "%rd10"), kNothing);
  std::string later = phase + phase;
  later.replace(later.rfind("%rd10"), 5, "%rd11");
  Gives(kInit + others + later + LookFor(0, "%rd10"),
        "a wait with a state of phase 0 for the mbarrier at 0, whose phase 2");
}

TEST_CASE("mbarriers of the block before are gone") {
  for (const uint64_t seed : {0, 1}) {
    const Outcome outcome =
        Run(kSetUp + Init(8, 32) + kMeet + Arrive(8) + Await(8, 0), {},
            {.dynamic_shared = 64, .grid = 3, .seed = seed});
    CHECK(outcome.wrong == "");
  }
}

}  // namespace
}  // namespace stowage::testing::ptx
