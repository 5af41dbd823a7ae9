#ifndef STOWAGE_TESTS_GPU_PTX_WRITTEN_PRODUCT_H_
#define STOWAGE_TESTS_GPU_PTX_WRITTEN_PRODUCT_H_

// Parts of hand-written kernels (written_kernel.h) whose warpgroups multiply matrices in
// shared memory.
//
//   Run(FillShared(4096) + Fenced() + Registers(64) + kFence + Multiply(64, ...) + kWait)

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/strings.h"

namespace stowage::testing::ptx {

// The first bytes of `in`, to shared memory, by 16 bytes a thread. %r1 is where shared
// memory begins, in each part.
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

// The fields of a descriptor but for where shared memory begins, which is added:
// %rd10 + number.
struct Descriptor {
  uint64_t start = 0, leading = 0, stride = 0, base = 0;
  uint64_t swizzle = 0;  // 0: none, 1: 128, 2: 64, 3: 32 bytes
};
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

// Registers NAME0 ... of floats.
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
// To `out`, or from %rd16, one behind the other: those of a thread, then of the next.
inline std::string StoreAccumulators(int columns,
                                     const std::string& name = "%d") {
  std::string text = StrCat("\tmul.wide.u32 \t%rd17, %r0, ", columns * 2,
                            ";\n\tadd.s64 \t%rd17, %rd17, %rd2;\n");
  for (int i = 0; i < columns / 2; ++i) {
    text += StrCat("\tst.global.f32 \t[%rd17+", 4 * i, "], ", name, i, ";\n");
  }
  return text;
}

// wgmma.mma_async of what follows the accumulators: "%rd10, %rd11, 1, 1, 1, 0, 0".
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

#endif  // STOWAGE_TESTS_GPU_PTX_WRITTEN_PRODUCT_H_
