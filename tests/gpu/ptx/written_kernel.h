#ifndef STOWAGE_TESTS_GPU_PTX_WRITTEN_KERNEL_H_
#define STOWAGE_TESTS_GPU_PTX_WRITTEN_KERNEL_H_

// Runs hand-written PTX in the interpreter, for tests of the interpreter (with doctest).
//
//   const Outcome outcome = Run("\tst.global.u32 \t[%rd4], %r0;");
//   CHECK(outcome.out[8 * 5] == 5);

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/tensor_map.h"
#include "tests/gpu/ptx/ptx_machine.h"
#include "tests/gpu/ptx/ptx_module.h"

namespace stowage::testing::ptx {

// Returns the PTX of a kernel around `body`. The kernel's params are {in, out}, and tensor maps
// follow at byte 64. Each thread has 64 bytes of `in` at address %rd3 and 64 bytes of `out` at
// address %rd4. %r0 is the index of the thread.
inline std::string Text(const std::string& body, size_t maps = 0,
                        uint32_t alignment = 1024) {
  return StrCat(R"(.version 9.0
.target sm_90a
.address_size 64
.extern .shared .align )",
                alignment, R"( .b8 stowage_dynamic_shared[];
.visible .entry test(
	.param .align )",
                maps == 0 ? "8" : "64", " .b8 test_param_0[",
                maps == 0 ? 16 : 64 + maps * sizeof(gpu::TensorMap), R"(]
)
.maxntid 1024, 1, 1
{
	.reg .pred 	%p<9>;
	.reg .b16 	%rs<9>;
	.reg .b32 	%r<40>;
	.reg .f32 	%f<40>;
	.reg .b64 	%rd<19>;
	.reg .f64 	%fd<9>;

	ld.param.u64 	%rd1, [test_param_0];
	ld.param.u64 	%rd2, [test_param_0+8];
	mov.u32 	%r0, %tid.x;
	mul.wide.u32 	%rd5, %r0, 64;
	add.s64 	%rd3, %rd1, %rd5;
	add.s64 	%rd4, %rd2, %rd5;
)",
                body, "\n\tret;\n\n}\n");
}

struct Outcome {
  std::string wrong;
  std::vector<uint64_t> out;  // 8 words per thread
};

struct Launch {
  uint32_t threads = 32, dynamic_shared = 0, grid = 1;
  uint64_t seed = 0;
  std::vector<gpu::TensorMap> maps = {};
  uint32_t alignment = 1024;  // alignment of dynamic shared memory
};

// Runs a kernel that may access the words `in` and `out_words` words of `out`.
inline Outcome RunIn(std::span<uint64_t> in, const std::string& body,
                     size_t out_words, const Launch& launch) {
  Module module;
  REQUIRE(module.Add(Text(body, launch.maps.size(), launch.alignment)).ok());
  const Result<const Kernel*> kernel = module.Find("test");
  REQUIRE_MESSAGE(kernel.ok(), (kernel.ok() ? "" : kernel.error().message));
  Outcome outcome;
  outcome.out.resize(out_words);
  std::vector<uint64_t> params = {
      reinterpret_cast<uint64_t>(in.data()),
      reinterpret_cast<uint64_t>(outcome.out.data())};
  if (!launch.maps.empty()) params.resize(8);
  for (const gpu::TensorMap& map : launch.maps) {
    params.insert(params.end(), map.words.begin(), map.words.end());
  }
  const std::span<std::byte> memory[] = {
      std::as_writable_bytes(in),
      std::as_writable_bytes(std::span(outcome.out))};
  Machine machine;
  outcome.wrong = machine.Run({.kernel = *kernel,
                               .params = std::as_bytes(std::span(params)),
                               .grid_x = launch.grid,
                               .threads = launch.threads,
                               .dynamic_shared = launch.dynamic_shared,
                               .memory = memory},
                              {.seed = launch.seed});
  return outcome;
}

inline Outcome RunOn(const std::string& body, std::vector<uint64_t> in,
                     size_t out_words, const Launch& launch) {
  return RunIn(in, body, out_words, launch);
}

// Runs a kernel with 8 words of `in` per thread. If `in` has fewer words, it is repeated.
inline Outcome Run(const std::string& body,
                   const std::vector<uint64_t>& in = {},
                   const Launch& launch = {}) {
  std::vector<uint64_t> from(8 * launch.threads * launch.grid);
  for (size_t i = 0; i < from.size() && !in.empty(); ++i) {
    from[i] = in[i % in.size()];
  }
  const size_t words = from.size();
  return RunOn(body, std::move(from), words, launch);
}

inline bool Says(const Outcome& outcome, const char* what) {
  INFO(outcome.wrong);
  const bool says = outcome.wrong.find(what) != std::string::npos;
  CHECK(says);
  return says;
}

template <typename T>
uint64_t Word(T x) {
  uint64_t word = 0;
  std::memcpy(&word, &x, sizeof(x));
  return word;
}

// The next functions return PTX that copies tensors to shared memory and waits for the copies. The
// instructions of kFirst run only in thread 0. Positions (`at`, `to`, `from`, `signal`) are byte
// offsets into dynamic shared memory.
//
//   Run(kSetUp + Init(0, 1) + kFenceInit + kMeet + Expect(0, 2048) +
//       CopyTensor(1024, {0, 8}, 0) + Await(0, 0) + StoreShared(1024, 2048))

// Sets %r30 to the address of dynamic shared memory, %rd15 to the address of the first tensor map,
// and %p8 in thread 0.
inline const std::string kSetUp =
    "\tmov.u32 \t%r30, stowage_dynamic_shared;\n"
    "\tmov.b64 \t%rd14, test_param_0;\n"
    "\tadd.s64 \t%rd14, %rd14, 64;\n"
    "\tcvta.param.u64 \t%rd15, %rd14;\n"
    "\tsetp.eq.u32 \t%p8, %r0, 0;\n";
inline const std::string kMeet = "\tbar.sync \t0;\n";
inline const std::string kFirst = "\t@%p8 ";

inline std::string Place(size_t at) { return StrCat("[%r30+", at, "]"); }

inline std::string Init(size_t at, int arrivals) {
  return StrCat(kFirst, "mbarrier.init.shared::cta.b64 \t", Place(at), ", ",
                arrivals, ";\n");
}
inline const std::string kFenceInit =
    kFirst + "fence.mbarrier_init.release.cluster;\n";
// Thread 0 arrives at the mbarrier and announces the bytes to expect.
inline std::string Expect(size_t at, int bytes) {
  return StrCat(kFirst, "mbarrier.arrive.expect_tx.shared::cta.b64 \t_, ",
                Place(at), ", ", bytes, ";\n");
}
// Every thread arrives at the mbarrier.
inline std::string Arrive(size_t at) {
  return StrCat("\tmbarrier.arrive.release.cta.shared::cta.b64 \t_, ",
                Place(at), ";\n");
}

// Waits until the phase with this parity is complete.
inline std::string Await(size_t at, const std::string& parity) {
  return StrCat(
      "\t{\n\t.reg .pred \tdone;\nLAB_WAIT:\n"
      "\tmbarrier.try_wait.parity.shared::cta.b64 \tdone, ",
      Place(at), ", ", parity,
      ";\n\t@done bra \tDONE;\n\tbra \tLAB_WAIT;\nDONE:\n\t}\n");
}
inline std::string Await(size_t at, int parity) {
  return Await(at, StrCat(parity));
}

// Returns the operand "%rd15, {8, 0}", for example, from the map and the coordinates of a box.
inline std::string Tensor(const std::vector<int>& first,
                          const std::string& map = "%rd15") {
  std::string text = map + ", {";
  for (size_t i = 0; i < first.size(); ++i) {
    text += StrCat(i == 0 ? "" : ", ", first[i]);
  }
  return text + "}";
}
// Thread 0 copies a box of the tensor that starts at the element `first`. The copy signals the
// mbarrier at `signal`.
inline std::string CopyTensor(size_t to, const std::vector<int>& first,
                              size_t signal, const std::string& map = "%rd15") {
  return StrCat(kFirst, "cp.async.bulk.tensor.", first.size(),
                "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \t",
                Place(to), ", [", Tensor(first, map), "], ", Place(signal),
                ";\n");
}
// Thread 0 copies bytes of `in`, from byte `from`.
inline std::string CopyBytes(size_t to, size_t from, size_t bytes,
                             size_t signal) {
  return StrCat(
      kFirst,
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \t",
      Place(to), ", [%rd1+", from, "], ", bytes, ", ", Place(signal), ";\n");
}

// Stores shared memory to `out`. Each thread stores 16 bytes at a time.
inline std::string StoreShared(size_t from, size_t bytes) {
  return StrCat(R"({
	mul.lo.u32 	%r31, %r0, 16;
	mov.u32 	%r32, %ntid.x;
	mul.lo.u32 	%r32, %r32, 16;
NEXT:
	setp.ge.u32 	%p7, %r31, )",
                bytes, R"(;
	@%p7 bra 	STORED;
	cvt.u64.u32 	%rd17, %r31;
	add.s64 	%rd17, %rd17, %rd2;
	add.s32 	%r33, %r31, %r30;
	ld.shared.v4.u32 	{%r34, %r35, %r36, %r37}, [%r33+)",
                from, R"(];
	st.global.v4.u32 	[%rd17], {%r34, %r35, %r36, %r37};
	add.s32 	%r31, %r31, %r32;
	bra.uni 	NEXT;
STORED:
	}
)");
}

// The next functions return PTX for warpgroup matmuls of matrices in shared memory.
//
//   Run(FillShared(4096) + kProxyFence + kBarrier + Accumulators(64) +
//       SetAccumulators(64, "0f00000000") + Describe(0, a) + Describe(1, b) + kFence +
//       Multiply(64, "%rd10, %rd11, 0, 1, 1, 0, 0") + kEnd + StoreAccumulators(64))

// Copies the first bytes of `in` to shared memory. Each thread copies 16 bytes at a time. This and
// the next functions set %r1 to the address of dynamic shared memory.
inline std::string FillShared(size_t bytes) {
  return StrCat(R"(
	mov.u32 	%r1, stowage_dynamic_shared;
	mov.u32 	%r20, %ntid.x;
	shl.b32 	%r20, %r20, 4;
	shl.b32 	%r21, %r0, 4;
$L_fill:
	setp.ge.u32 	%p7, %r21, )",
                bytes, R"(;
	@%p7 bra 	$L_filled;
	cvt.u64.u32 	%rd17, %r21;
	add.s64 	%rd17, %rd17, %rd1;
	add.s32 	%r22, %r21, %r1;
	ld.global.v4.u32 	{%r23, %r24, %r25, %r26}, [%rd17];
	st.shared.v4.u32 	[%r22], {%r23, %r24, %r25, %r26};
	add.s32 	%r21, %r21, %r20;
	bra.uni 	$L_fill;
$L_filled:
)");
}

inline const std::string kProxyFence = "\tfence.proxy.async;\n";
inline const std::string kBarrier = "\tbar.sync 0;\n";
inline const std::string kFence = "\twgmma.fence.sync.aligned;\n";
inline const std::string kCommit = "\twgmma.commit_group.sync.aligned;\n";
inline std::string WaitFor(int groups) {
  return StrCat("\twgmma.wait_group.sync.aligned ", groups, ";\n");
}
inline const std::string kEnd = kCommit + WaitFor(0);

// The fields of a wgmma matrix descriptor. `start` is relative to dynamic shared memory.
struct Descriptor {
  uint64_t start = 0, leading = 0, stride = 0, base = 0;
  uint64_t swizzle = 0;  // 0 none, 1 is 128 bytes, 2 is 64, 3 is 32
};
// Sets register %rd10, %rd11 and so on, given `number`, to the descriptor.
inline std::string Describe(int number, const Descriptor& d) {
  const uint64_t bits = (d.start >> 4) | (d.leading >> 4) << 16 |
                        (d.stride >> 4) << 32 | d.base << 49 | d.swizzle << 62;
  return StrCat(
      "\tmov.u32 \t%r1, stowage_dynamic_shared;\n"
      "\tcvt.u64.u32 \t%rd17, %r1;\n"
      "\tshr.u64 \t%rd17, %rd17, 4;\n"
      "\tadd.s64 \t%rd1",
      number, ", %rd17, ", static_cast<int64_t>(bits), ";\n");
}

// Declares float registers NAME0, NAME1 and so on, for a result with `columns` columns.
inline std::string Accumulators(int columns, const std::string& name = "%d") {
  return StrCat("\t.reg .f32 \t", name, "<", columns / 2, ">;\n");
}
inline std::string SetAccumulators(int columns, const std::string& value,
                                   const std::string& name = "%d") {
  std::string text;
  for (int i = 0; i < columns / 2; ++i) {
    text += StrCat("\tmov.f32 \t", name, i, ", ", value, ";\n");
  }
  return text;
}
// Stores the accumulators to `out`. Those of a thread are contiguous, and threads are in order.
inline std::string StoreAccumulators(int columns,
                                     const std::string& name = "%d") {
  std::string text = StrCat("\tmul.wide.u32 \t%rd17, %r0, ", columns * 2,
                            ";\n\tadd.s64 \t%rd17, %rd17, %rd2;\n");
  for (int i = 0; i < columns / 2; ++i) {
    text += StrCat("\tst.global.f32 \t[%rd17+", 4 * i, "], ", name, i, ";\n");
  }
  return text;
}

// Returns a wgmma.mma_async. `operands` follow the accumulators, for example
// "%rd10, %rd11, 1, 1, 1, 0, 0".
inline std::string Multiply(int columns, const std::string& operands,
                            const std::string& type = "bf16",
                            const std::string& name = "%d") {
  std::string text = StrCat("\twgmma.mma_async.sync.aligned.m64n", columns,
                            "k16.f32.", type, ".", type, " \t{");
  for (int i = 0; i < columns / 2; ++i) {
    text += StrCat(i == 0 ? "" : ", ", name, i);
  }
  return StrCat(text, "}, ", operands, ";\n");
}

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_WRITTEN_KERNEL_H_
