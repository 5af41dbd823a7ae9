#ifndef STOWAGE_TESTS_GPU_RESOURCE_GATES_H_
#define STOWAGE_TESTS_GPU_RESOURCE_GATES_H_

// Rules for the compiled GPU kernels. Without a GPU, ptxas reports for each architecture whether
// a kernel spills registers to memory, and the PTX shows whether it keeps an array there or does
// not use the tensor cores; //gpu:cuda_library.bzl keeps both.
//
//   Compiled compiled;
//   Status read = AddPtxasLog(log, &compiled);
//   ...
//   for (const std::string& fault : Faults(compiled, rules)) FAIL_CHECK(fault);

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage::testing {

/// The report of ptxas on one function. Functions that kernels call, rather than
/// contain, are listed for each kernel that calls them, with no registers of
/// their own.
struct Resources {
  std::string function;      // mangled
  std::string architecture;  // "90"
  int registers = 0;
  int stack_bytes = 0;
  int spill_bytes = 0;  // stored and loaded
};

/// The properties of a function's PTX.
struct PtxFunction {
  std::string function;     // mangled
  std::string target = {};  // "80", or "90a": for that architecture alone
  bool is_kernel = false;
  bool bounded = false;        // it says how many threads a block has at most
  bool tensor_cores = false;   // mma.sync
  bool warpgroups = false;     // wgmma.mma_async
  bool bulk_copies = false;    // cp.async.bulk.tensor
  bool async_copies = false;   // cp.async of some bytes
  bool wide_loads = false;     // 16 bytes from global memory in one instruction
  bool local_memory = false;   // ld.local, st.local
  bool float_atomics = false;  // sums in whatever order
};

struct Compiled {
  std::vector<Resources> resources;
  std::vector<PtxFunction> ptx;
  std::vector<std::string> warnings;  // lines
};

/// Adds the report of a NAME.ptxas.txt. Error kInvalidArgument, with the line, for text that
/// ptxas does not print with --resource-usage.
Status AddPtxasLog(std::string_view log, Compiled* compiled);

/// Adds the functions of a NAME.ptx. Error kInvalidArgument if it names no
/// target.
Status AddPtx(std::string_view ptx, Compiled* compiled);

/// "Softmax<BF16, 4>" for the mangled name of
/// void stowage::gpu::(anonymous namespace)::Softmax<stowage::gpu::BF16, 4>(P).
std::string ShortName(const std::string& mangled);

/// A requirement on kernels. The rule for a kernel is the last one whose pattern
/// fits its short name; a * in it stands for any characters.
struct KernelRule {
  std::string_view kernels;
  int registers = 0;          // at most
  bool tensor_cores = false;  // uses them, by mma.sync
  bool warpgroups = false;    // by wgmma.mma_async
  bool bulk_copies = false;   // has some, and no other asynchronous ones
  bool wide_loads = false;    // has some
};

/// What is wrong, one line each, empty if nothing: a kernel that spills, has a
/// stack, keeps values in local memory or adds floats atomically; that takes more
/// registers than its rule allows, lacks what the rule wants or STOWAGE_KERNEL's
/// bound on its threads, or is in the PTX and not in the log of each architecture,
/// or the reverse; PTX for one architecture alone ("90a") is wanted in the log of that
/// one; a function that is called, not inlined, unless it is CUDA's own; a warning, or
/// that products of warpgroups must wait for each other; a rule without a kernel. No
/// kernels at all are a fault too.
std::vector<std::string> Faults(const Compiled& compiled,
                                std::span<const KernelRule> rules);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_RESOURCE_GATES_H_
