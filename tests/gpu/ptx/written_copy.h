#ifndef STOWAGE_TESTS_GPU_PTX_WRITTEN_COPY_H_
#define STOWAGE_TESTS_GPU_PTX_WRITTEN_COPY_H_

// Parts of hand-written kernels (written_kernel.h) that copy tensors to shared memory and
// wait for that. What "the first" does, thread 0 does alone; places are bytes of
// dynamic shared memory.
//
//   Run(kSetUp + Init(0, 1) + kFenceInit + kMeet + Expect(0, 2048) +
//       CopyTensor(1024, {0, 8}, 0) + Await(0, 0) + StoreShared(1024, 2048))

#include <cstddef>
#include <string>
#include <vector>

#include "base/strings.h"

namespace stowage::testing::ptx {

// %r30 is where shared memory begins, %rd15 the first tensor map; %p8: it is the first.
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
// The first arrives, and expects bytes.
inline std::string Expect(size_t at, int bytes) {
  return StrCat(kFirst, "mbarrier.arrive.expect_tx.shared::cta.b64 \t_, ",
                Place(at), ", ", bytes, ";\n");
}
// All do, each for itself.
inline std::string Arrive(size_t at) {
  return StrCat("\tmbarrier.arrive.release.cta.shared::cta.b64 \t_, ",
                Place(at), ";\n");
}

// Until the phase of this parity is over.
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

// "%rd15, {%r1, 0}"
inline std::string Tensor(const std::vector<int>& first,
                          const std::string& map = "%rd15") {
  std::string text = map + ", {";
  for (size_t i = 0; i < first.size(); ++i) {
    text += StrCat(i == 0 ? "" : ", ", first[i]);
  }
  return text + "}";
}
// The first copies a box of the map from this element on, and signals.
inline std::string CopyTensor(size_t to, const std::vector<int>& first,
                              size_t signal, const std::string& map = "%rd15") {
  return StrCat(kFirst, "cp.async.bulk.tensor.", first.size(),
                "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \t",
                Place(to), ", [", Tensor(first, map), "], ", Place(signal),
                ";\n");
}
// Or bytes of `in`.
inline std::string CopyBytes(size_t to, size_t from, size_t bytes,
                             size_t signal) {
  return StrCat(
      kFirst,
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes \t",
      Place(to), ", [%rd1+", from, "], ", bytes, ", ", Place(signal), ";\n");
}

// To `out`, by 16 bytes a thread.
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

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_WRITTEN_COPY_H_
