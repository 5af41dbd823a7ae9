#ifndef STOWAGE_TESTS_GPU_PTX_WRITTEN_KERNEL_H_
#define STOWAGE_TESTS_GPU_PTX_WRITTEN_KERNEL_H_

// Kernels of PTX that are written by hand, and run by the interpreter (doctest checks).
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

// A kernel with params {in, out}, whose lane's addresses are %rd3 and %rd4, 64 bytes
// apart from those of the next lane; %r0 is the thread's number. Tensor maps follow from
// byte 64 on.
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
  std::vector<uint64_t> out;  // 8 words a thread
};

struct Launch {
  uint32_t threads = 32, dynamic_shared = 0, grid = 1;
  uint64_t seed = 0;
  std::vector<gpu::TensorMap> maps = {};
  uint32_t alignment = 1024;  // of dynamic shared memory
};

// Runs a kernel that may touch these words, and so many behind `out`.
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

// Each thread has 8 words of `in`, its own or the same for all.
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

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_WRITTEN_KERNEL_H_
