// The interpreter of PTX, on kernels written by hand: how lanes part and meet, what
// warps read of each other, and what is reported.

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/written_kernel.h"

namespace stowage::testing::ptx {
namespace {

TEST_CASE("lanes part at branches and meet again") {
  // Each lane turns as often as its number says, and then all vote.
  const Outcome outcome = Run(R"(
	mov.u32 	%r1, 0;
	mov.u32 	%r2, 0;
$L_loop:
	setp.ge.u32 	%p1, %r1, %r0;
	@%p1 bra 	$L_done;
	add.s32 	%r2, %r2, %r1;
	add.s32 	%r1, %r1, 1;
	bra.uni 	$L_loop;
$L_done:
	setp.gt.u32 	%p2, %r2, 20;
	vote.sync.ballot.b32 	%r3, %p2, -1;
	@!%p2 mov.u32 	%r2, 7;
	st.global.v2.u32 	[%rd4], {%r2, %r3};)");
  REQUIRE(outcome.wrong == "");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint32_t got[2];
    std::memcpy(got, &outcome.out[8 * lane], sizeof(got));
    CHECK(got[0] == (lane < 7 ? 7 : lane * (lane - 1) / 2));
    CHECK(got[1] == ~uint32_t{127});
  }
}

// Threads write their number to shared memory and read what `other` wrote.
std::string Exchange(const std::string& sync, const std::string& other) {
  return StrCat(
      "\tmov.u32 %r1, stowage_dynamic_shared;\n"
      "\tshl.b32 %r2, %r0, 2;\n"
      "\tadd.s32 %r3, %r1, %r2;\n"
      "\tst.shared.u32 [%r3], %r0;\n",
      sync, "\t", other,
      ";\n"
      "\tshl.b32 %r5, %r4, 2;\n"
      "\tadd.s32 %r6, %r1, %r5;\n"
      "\tld.shared.u32 %r7, [%r6];\n"
      "\tst.global.u32 [%rd4], %r7;");
}

TEST_CASE("what other warps wrote is read behind a barrier") {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const Launch launch{.threads = 128, .dynamic_shared = 512, .seed = seed};
    const Outcome outcome =
        Run(Exchange("\tbar.sync 0;\n", "xor.b32 %r4, %r0, 127"), {}, launch);
    REQUIRE(outcome.wrong == "");
    for (size_t i = 0; i < 128; ++i) CHECK(outcome.out[8 * i] == (i ^ 127));
    // Within a warp a smaller one does.
    CHECK(Run(Exchange("\tbar.warp.sync -1;\n", "xor.b32 %r4, %r0, 31"), {},
              launch)
              .wrong == "");
  }
}

TEST_CASE("races are reported, whoever comes first") {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const Launch launch{.threads = 128, .dynamic_shared = 512, .seed = seed};
    const Outcome warps =
        Run(Exchange("", "xor.b32 %r4, %r0, 127"), {}, launch);
    CHECK(warps.wrong != "");  // a race, or nothing is there yet
    const Outcome small = Run(
        Exchange("\tbar.warp.sync -1;\n", "xor.b32 %r4, %r0, 127"), {}, launch);
    CHECK(small.wrong != "");
    Says(Run(Exchange("", "xor.b32 %r4, %r0, 31"), {}, launch),
         "a race: shared");
    // Written, read by others, and written again.
    const std::string again = "\n\tst.shared.u32 [%r3], %r7;";
    Says(Run(Exchange("\tbar.sync 0;\n", "xor.b32 %r4, %r0, 127") + again, {},
             launch),
         "a race: shared");
    CHECK(Run(Exchange("\tbar.sync 0;\n", "xor.b32 %r4, %r0, 127") +
                  "\n\tbar.sync 0;" + again,
              {}, launch)
              .wrong == "");
    // Blocks.
    Says(Run("\tst.global.u32 [%rd2], %r0;", {},
             {.threads = 32, .grid = 2, .seed = seed}),
         "a race: global");
    Says(Run("\tmov.u32 %r1, %ctaid.x;\n\tsetp.eq.u32 %p1, %r1, 0;\n"
             "\tsetp.eq.u32 %p2, %r0, 0;\n\tand.pred %p3, %p1, %p2;\n"
             "\t@%p3 st.global.u32 [%rd2], %r0;\n"
             "\tld.global.u32 %r3, [%rd2];",
             {}, {.threads = 32, .grid = 2, .seed = seed}),
         "a race: global");
    // But atomics.
    CHECK(Run("\tatom.global.min.u32 %r1, [%rd2], %r0;", {},
              {.threads = 32, .grid = 2, .seed = seed})
              .wrong == "");
  }
}

TEST_CASE("atomics give each lane what was there before") {
  const Outcome outcome =
      Run("\tmov.u32 %r1, stowage_dynamic_shared;\n"
          "\tmov.u32 %r2, 0;\n"
          "\tsetp.eq.u32 %p1, %r0, 0;\n"
          "\t@%p1 st.shared.u32 [%r1], %r2;\n"
          "\tbar.sync 0;\n"
          "\tatom.shared.add.u32 %r3, [%r1], 2;\n"
          "\tst.global.u32 [%rd4], %r3;",
          {}, {.threads = 64, .dynamic_shared = 16, .seed = 5});
  REQUIRE(outcome.wrong == "");
  std::set<uint64_t> seen;
  for (size_t i = 0; i < 64; ++i) seen.insert(outcome.out[8 * i]);
  CHECK(seen.size() == 64);
  CHECK(*seen.rbegin() == 126);
}

TEST_CASE("asynchronous copies arrive at the wait for their group") {
  const auto copies = [](const char* between, int last, const char* read) {
    return StrCat(
        "\tmov.u32 %r1, stowage_dynamic_shared;\n"
        "\tshl.b32 %r2, %r0, 5;\n"
        "\tadd.s32 %r3, %r1, %r2;\n"
        "\tadd.s32 %r8, %r3, 16;\n"
        "\tadd.s64 %rd6, %rd3, 16;\n"
        "\tmov.u32 %r9, ",
        last,
        ";\n"
        "\tcp.async.cg.shared.global [%r3], [%rd3], 16, 16;\n"
        "\tcp.async.commit_group;\n"
        "\tcp.async.cg.shared.global [%r8], [%rd6], 16, %r9;\n"
        "\tcp.async.commit_group;\n",
        between, "\tld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [", read,
        "];\n\tst.global.v4.u32 [%rd4], {%r4,%r5,%r6,%r7};");
  };
  const std::vector<uint64_t> in = {1, 2, 3, 4, 0, 0, 0, 0};
  const Launch launch{.dynamic_shared = 1024};
  const Outcome first =
      Run(copies("\tcp.async.wait_group 1;\n", 16, "%r3"), in, launch);
  REQUIRE(first.wrong == "");
  CHECK(first.out[1] == 2);
  const Outcome second =
      Run(copies("\tcp.async.wait_group 0;\n", 16, "%r8"), in, launch);
  REQUIRE(second.wrong == "");
  CHECK(second.out[1] == 4);
  const Outcome zeros =
      Run(copies("\tcp.async.wait_group 0;\n", 0, "%r8"), in, launch);
  REQUIRE(zeros.wrong == "");
  CHECK(zeros.out[1] == 0);
  Says(Run(copies("\tcp.async.wait_group 1;\n", 16, "%r8"), in, launch),
       "is being copied and was not waited for");
  Says(Run(copies("", 16, "%r3"), in, launch),
       "is being copied and was not waited for");
}

TEST_CASE("accesses outside, unaligned, or of what nobody wrote are reported") {
  Says(Run("\tld.global.u32 %r1, [%rd1+-4];"), "is outside of what");
  Says(Run("\tld.global.u32 %r1, [%rd1+2048];"), "is outside of what");
  Says(Run("\tmov.u64 %rd6, -4;\n\tld.global.u32 %r1, [%rd6];"),
       "is outside of what");  // the end of all addresses
  Says(Run("\tld.global.u32 %r1, [%rd1+2];"), "is not aligned");
  Says(Run("\tst.global.u32 [%rd2+2048], %r0;"), "0 bytes from the end");
  Says(Run("\tld.param.u64 %rd6, [test_param_0+16];"), "bytes of params");
  const Launch launch{.dynamic_shared = 64};
  const std::string base = "\tmov.u32 %r1, stowage_dynamic_shared;\n";
  Says(Run(base + "\tld.shared.u32 %r2, [%r1];", {}, launch),
       "was never written");
  Says(Run(base + "\tst.shared.u32 [%r1+64], %r0;", {}, launch),
       "of shared memory");
  Says(Run("\tst.global.u32 [%rd4], %r5;"), "read a register that they never");
  Says(Run("\tsetp.eq.u32 %p1, %r0, 3;\n\t@%p1 mov.u32 %r5, 1;\n"
           "\tst.global.u32 [%rd4], %r5;"),
       "lanes 0 1 2 4 5");
  // What is computed of it is like it, unless a choice leaves it out.
  Says(Run("\tadd.s32 %r6, %r5, 1;\n\tst.global.u32 [%rd4], %r6;"),
       "read a register that they never");
  const std::string choice =
      "\tsetp.eq.u32 %p1, %r0, 99;\n\tselp.b32 %r6, %r5, %r0, %p1;\n";
  CHECK(Run(choice + "\tst.global.u32 [%rd4], %r6;").wrong == "");
  Says(Run("\tsetp.eq.u32 %p1, %r5, 1;\n\t@%p1 st.global.u32 [%rd4], %r0;"),
       "a guard that was never written");
  Says(Run("\tmov.u32 %r1, 0;\n\tdiv.u32 %r2, %r0, %r1;"), "division by zero");
}

TEST_CASE("of a vector that nvcc widened only what is used counts") {
  const std::string load =
      "\t.pragma \"used_bytes_mask 4095\";\n"
      "\tld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd6];\n";
  const std::string end = "\tadd.s64 %rd6, %rd1, 2048;\n";
  CHECK(Run("\tadd.s64 %rd6, %rd1, 2032;\n" + load +
            "\tst.global.u32 [%rd4], %r3;")
            .wrong == "");
  Says(Run("\tadd.s64 %rd6, %rd1, 2032;\n" + load +
           "\tst.global.u32 [%rd4], %r4;"),
       "read a register that they never");
  Says(Run(end + load), "is outside of what");
  Says(Run("\tadd.s64 %rd6, %rd1, 8;\n" + load), "is not aligned");
}

TEST_CASE("warps that are not whole are reported") {
  const std::string third = "\tsetp.lt.u32 %p1, %r0, 3;\n";
  Says(Run(third + "\t@%p1 shfl.sync.bfly.b32 %r1|%p2, %r0, 1, 31, -1;"),
       "only lanes");
  Says(Run(third + "\t@%p1 ret;\n\tbar.warp.sync -1;"), "only lanes 3 4");
  Says(Run("\tbar.warp.sync 7;"), "a mask of members");
  Says(Run(third + "\t@%p1 bra $L_a;\n\tbar.sync 0;\n\tbra.uni $L_b;\n"
                   "$L_a:\n\tbar.sync 0;\n$L_b:"),
       "wait here for others");
  // Warps that wait in different places.
  Says(Run("\tsetp.lt.u32 %p1, %r0, 32;\n\t@%p1 bra $L_a;\n\tbar.sync 0;\n"
           "\tbra.uni $L_b;\n$L_a:\n\tbar.sync 0;\n$L_b:",
           {}, {.threads = 64}),
       "warps wait in different places");
  // One that has ended is not waited for.
  CHECK(Run("\tsetp.lt.u32 %p1, %r0, 32;\n\t@%p1 ret;\n\tbar.sync 0;", {},
            {.threads = 64})
            .wrong == "");
}

// A block of 4 warps, of which those from 2 on read what 0 and 1 wrote.
std::string Producers(const std::string& written, const std::string& awaited,
                      const std::string& then = "") {
  return StrCat(
      "\tmov.u32 %r1, stowage_dynamic_shared;\n"
      "\tand.b32 %r2, %r0, 63;\n\tshl.b32 %r2, %r2, 2;\n"
      "\tadd.s32 %r3, %r1, %r2;\n"
      "\tsetp.ge.u32 %p1, %r0, 64;\n\t@%p1 bra $L_read;\n"
      "\tst.shared.u32 [%r3], %r0;\n",
      written, "\tret;\n$L_read:\n", awaited,
      "\tld.shared.u32 %r4, [%r3];\n\tst.global.u32 [%rd4], %r4;\n", then);
}

TEST_CASE("a barrier with a number of threads orders those who come to it") {
  for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    CAPTURE(seed);
    const Launch launch{.threads = 128, .dynamic_shared = 256, .seed = seed};
    const auto run = [&](const std::string& body) {
      return Run(body, {}, launch);
    };
    for (const char* const written :
         {"\tbar.arrive 3, 128;\n", "\tbar.sync 3, 128;\n"}) {
      const Outcome outcome = run(Producers(written, "\tbar.sync 3, 128;\n"));
      REQUIRE(outcome.wrong == "");
      for (size_t i = 64; i < 128; ++i) CHECK(outcome.out[8 * i] == i - 64);
    }
    // In registers.
    CHECK(run("\tmov.u32 %r8, 3;\n\tmov.u32 %r9, 128;\n" +
              Producers("\tbar.arrive %r8, %r9;\n", "\tbar.sync %r8, %r9;\n"))
              .wrong == "");
    // Two barriers, one after the other: what a warp has seen it passes on.
    CHECK(run(Producers("\tbar.sync 1, 64;\n\tsetp.lt.u32 %p2, %r0, 32;\n"
                        "\t@%p2 bar.arrive 2, 96;\n",
                        "\tbar.sync 2, 96;\n"))
              .wrong == "");
    // Written before the barrier, but not by those who came.
    Says(run(Producers("\tsetp.lt.u32 %p2, %r0, 32;\n"
                       "\t@%p2 bar.arrive 2, 96;\n",
                       "\tbar.sync 2, 96;\n")),
         "shared byte 1");
    // Written behind it.
    Says(run(Producers("\tbar.arrive 3, 128;\n\tst.shared.u32 [%r3], %r0;\n",
                       "\tbar.sync 3, 128;\n")),
         "a race: shared");
    // Read by two warps, which one of them tells the writers.
    const std::string back =
        "\tbar.sync 3, 128;\n\tbar.sync 4, 96;\n"
        "\tst.shared.u32 [%r3], %r0;\n";
    Says(run(Producers(back, "\tbar.sync 3, 128;\n",
                       "\tsetp.lt.u32 %p2, %r0, 96;\n"
                       "\t@%p2 bar.arrive 4, 96;\n")),
         "a race: shared");
    CHECK(run(Producers(back, "\tbar.sync 3, 128;\n",
                        "\tbar.sync 5, 64;\n\tsetp.lt.u32 %p2, %r0, 96;\n"
                        "\t@%p2 bar.arrive 4, 96;\n"))
              .wrong == "");
  }
}

TEST_CASE("each reader of a byte counts, and who arrives learns of none") {
  // Warp 0 writes 32 words, warps 1 and 2 read all of them, and warp 0 writes again.
  const auto body = [](const std::string& writer, const std::string& reader) {
    return StrCat(
        "\tmov.u32 %r1, stowage_dynamic_shared;\n"
        "\tand.b32 %r2, %r0, 31;\n\tshl.b32 %r2, %r2, 2;\n"
        "\tadd.s32 %r3, %r1, %r2;\n\tsetp.lt.u32 %p2, %r0, 64;\n"
        "\tsetp.ge.u32 %p1, %r0, 32;\n\t@!%p1 st.shared.u32 [%r3], %r0;\n"
        "\tbar.sync 0;\n\t@%p1 bra $L_read;\n",
        writer,
        "\tst.shared.u32 [%r3], %r0;\n\tret;\n$L_read:\n"
        "\tld.shared.u32 %r4, [%r3];\n\tst.global.u32 [%rd4], %r4;\n",
        reader);
  };
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const Launch launch{.threads = 96, .dynamic_shared = 128, .seed = seed};
    CHECK(Run(body("\tbar.sync 1, 96;\n", "\tbar.sync 1, 96;\n"), {}, launch)
              .wrong == "");
    CHECK(Run(body("\tbar.sync 1, 96;\n", "\tbar.arrive 1, 96;\n"), {}, launch)
              .wrong == "");
    // One of the two tells that it has read.
    Says(Run(body("\tbar.sync 1, 64;\n", "\t@%p2 bar.arrive 1, 64;\n"), {},
             launch),
         "a race: shared");
    Says(Run(body("\tbar.sync 1, 64;\n", "\t@!%p2 bar.arrive 1, 64;\n"), {},
             launch),
         "a race: shared");
    Says(Run(body("\tbar.arrive 1, 96;\n", "\tbar.sync 1, 96;\n"), {}, launch),
         "a race: shared");
  }
}

TEST_CASE("barriers that cannot open, or do not fit, are reported") {
  const Launch launch{.threads = 128, .dynamic_shared = 256};
  const auto says = [&](const std::string& body, const char* what) {
    for (const uint64_t seed : {0, 1, 2}) {
      Launch with = launch;
      with.seed = seed;
      Says(Run(body, {}, with), what);
    }
  };
  says("\tsetp.lt.u32 %p1, %r0, 64;\n\t@%p1 bar.sync 1, 96;",
       "warps wait for ever");
  says("\tsetp.lt.u32 %p1, %r0, 32;\n\t@%p1 bar.sync 1, 64;\n\tbar.sync 0;",
       "warps wait for ever");
  says("\tbar.sync 1, 100;", "barrier 1 for 100 threads, in a block of 128");
  says("\tbar.sync 1, 160;", "barrier 1 for 160 threads");
  says("\tbar.sync 16;", "barrier 16 for 0 threads");
  says(
      "\tsetp.lt.u32 %p1, %r0, 64;\n\t@%p1 bar.sync 1, 96;\n"
      "\t@!%p1 bar.sync 1, 128;",
      "barrier 1 for");
  says("\tbar.arrive 1, 128;\n\tbar.arrive 1, 128;\n\tbar.sync 1, 128;",
       "again before it has opened");
  says("\tbar.sync %r0, 128;", "a barrier that the lanes do not agree in");
  // Lanes that have ended are not asked.
  CHECK(Run("\tsetp.ge.u32 %p1, %r0, 120;\n\t@%p1 ret;\n\tmov.u32 %r1, 1;\n"
            "\tbar.sync %r1, 128;",
            {}, launch)
            .wrong == "");
  // One that nobody waits at need not open.
  CHECK(
      Run("\tsetp.lt.u32 %p1, %r0, 32;\n\t@%p1 bar.arrive 1, 128;", {}, launch)
          .wrong == "");
}

TEST_CASE("inline assembly has scopes of its own") {
  const Outcome outcome =
      Run("\tmov.u32 %r1, 1;\n"
          "\t// begin inline asm {\n\t{\n.reg .b32 %r1, t;\n.reg .pred p;\n"
          "setp.ne.b32 p, %r0, 3;\nmov.b32 %r1, 5;\nselp.b32 t, %r1, 7, p;\n"
          "mov.b32 %r2, t;\n}\n\n\t// end inline asm\n"
          "\tst.global.v2.u32 [%rd4], {%r1, %r2};");
  REQUIRE(outcome.wrong == "");
  for (size_t i = 0; i < 32; ++i) {
    CHECK(outcome.out[8 * i] == (uint64_t{i == 3 ? 7u : 5u} << 32 | 1));
  }
}

// Has each lane call the function, with the address in %rd6 and its own number.
std::string Calling(const std::string& function) {
  return StrCat(
      "\t{ // callseq 0, 0\n"
      "\t.reg .b32 temp_param_reg;\n"
      "\t.param .b64 param0;\n"
      "\tst.param.b64 \t[param0+0], %rd6;\n"
      "\t.param .b32 param1;\n"
      "\tst.param.b32 \t[param1+0], %r0;\n"
      "\tcall.uni \n\t",
      function,
      ", \n\t(\n\tparam0, \n\tparam1\n\t);\n"
      "\t} // callseq 0\n");
}

TEST_CASE("what is not understood is an error that quotes it") {
  const auto error = [](const std::string& body) {
    Module module;
    REQUIRE(module.Add(Text(body)).ok());
    const auto kernel = module.Find("test");
    return kernel.ok() ? std::string() : kernel.error().message;
  };
  CHECK(error("\tfrobnicate.u32 %r1, %r2;")
            .find("no such instruction: frobnicate.u32 %r1, %r2") !=
        std::string::npos);
  CHECK(error("\tadd.s32 %r1, %r2;").find("operands missing") !=
        std::string::npos);
  CHECK(error("\tadd.s32 %r1, %rd2, %r3;").find("of another size") !=
        std::string::npos);
  CHECK(error(Calling("cudaMalloc"))
            .find("no such instruction: call.uni \n\tcudaMalloc") !=
        std::string::npos);
  CHECK(error("\tbra $L_nowhere;").find("no such label") != std::string::npos);
  CHECK(error("\tadd.s32 %r1, %r2, %q3;").find("no such operand") !=
        std::string::npos);
  Module module;
  CHECK(!module.Find("test").ok());
  REQUIRE(module.Add(Text("")).ok());
  CHECK(!module.Add(Text("")).ok());
}

TEST_CASE("labels between braces are known there alone") {
  // Twice the same piece, as inline assembly that was inlined twice.
  const std::string turns =
      "\t{\n\t.reg .pred \tdone;\nAGAIN:\n\tadd.s32 \t%r1, %r1, 1;\n"
      "\tadd.s32 \t%r2, %r2, 1;\n\tsetp.ge.u32 \tdone, %r2, 5;\n"
      "\t@!done bra \tAGAIN;\n\t}\n\tmov.u32 \t%r2, 0;\n";
  const Outcome outcome =
      Run("\tmov.u32 \t%r1, 0;\n\tmov.u32 \t%r2, 0;\n" + turns + turns +
          "\tst.global.u32 \t[%rd4], %r1;\n");
  REQUIRE(outcome.wrong == "");
  CHECK(outcome.out[0] == 10);
  // From within a brace to a label outside of it, but not the other way.
  CHECK(Run("\t{\n\tbra \t$L_out;\n\t}\n$L_out:\n").wrong == "");
  const auto error = [](const std::string& body) {
    Module module;
    REQUIRE(module.Add(Text(body)).ok());
    const Result<const Kernel*> kernel = module.Find("test");
    return kernel.ok() ? "" : kernel.error().message;
  };
  CHECK(error("\tbra \tIN;\n\t{\nIN:\n\t}\n").find("no such label: IN") !=
        std::string::npos);
  CHECK(error("TWO:\nTWO:\n").find("a second label: TWO") != std::string::npos);
}

TEST_CASE("one lane is elected, and not the first") {
  const Outcome outcome =
      Run("\telect.sync \t%r1|%p1, -1;\n\tselp.u32 \t%r2, 1, 0, %p1;\n"
          "\tst.global.v2.u32 \t[%rd4], {%r1, %r2};\n");
  REQUIRE(outcome.wrong == "");
  for (uint64_t lane = 0; lane < 32; ++lane) {
    CHECK(outcome.out[8 * lane] == (31 | (lane == 31 ? uint64_t{1} << 32 : 0)));
  }
  Says(Run("\telect.sync \t_|%p1, 7;\n"), "a mask of members");
}

TEST_CASE("what a kernel tells the graph around it is written to its handle") {
  const std::string call = Calling("cudaGraphSetConditional");
  const Outcome outcome = Run("\tadd.s64 %rd6, %rd4, 8;\n" + call);
  REQUIRE(outcome.wrong == "");
  for (size_t lane = 0; lane < 32; ++lane) {
    CHECK(outcome.out[8 * lane] == 0);
    CHECK(outcome.out[8 * lane + 1] == lane);
    CHECK(outcome.out[8 * lane + 2] == 0);
  }
  Says(Run("\tmov.b64 %rd6, %rd2;\n" + call), "race");
  Says(Run("\tmov.b64 %rd6, 64;\n" + call), "at address 64 is outside");
  const Outcome one =
      Run("\tmov.b64 %rd6, %rd2;\n\tsetp.ne.s32 %p1, %r0, 5;\n"
          "\t@%p1 bra $L_end;\n" +
          call + "$L_end:\n");
  CHECK(one.wrong == "");
  CHECK(one.out[0] == 5);
}

TEST_CASE("a launch must suit its kernel") {
  CHECK(Run("", {}, {.threads = 2048}).wrong.find("threads a block") !=
        std::string::npos);
  CHECK(Run("", {}, {.threads = 48}).wrong.find("threads a block") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage::testing::ptx
