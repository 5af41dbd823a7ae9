#ifndef STOWAGE_TESTS_GPU_RESOURCE_GATES_H_
#define STOWAGE_TESTS_GPU_RESOURCE_GATES_H_

// Checks rules for the compiled GPU kernels, without a GPU. The report of ptxas shows, for each
// architecture, whether a kernel spills registers. The PTX shows whether a kernel keeps an array in
// local memory, and whether it uses the tensor cores. //gpu:cuda_library.bzl keeps both files.
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

/// The report of ptxas on one function. A function that is called, rather than inlined, is listed
/// for each kernel that calls it, with 0 registers.
struct Resources {
  std::string function;      // mangled
  std::string architecture;  // "90"
  int registers = 0;
  int stack_bytes = 0;
  int spill_bytes = 0;  // spill stores plus spill loads
};

/// The properties of a function's PTX.
struct PtxFunction {
  std::string function;     // mangled
  std::string target = {};  // "80", or "90a" for only that architecture
  bool is_kernel = false;
  bool bounded = false;        // has .maxntid, the maximum block size
  bool tensor_cores = false;   // has mma.sync
  bool warpgroups = false;     // has wgmma.mma_async
  bool bulk_copies = false;    // has cp.async.bulk.tensor
  bool async_copies = false;   // has cp.async.ca or cp.async.cg
  bool wide_loads = false;     // loads 16 bytes of global memory at a time
  bool local_memory = false;   // has ld.local or st.local
  bool float_atomics = false;  // adds floats in an undefined order
};

struct Compiled {
  std::vector<Resources> resources;
  std::vector<PtxFunction> ptx;
  std::vector<std::string> warnings;  // lines
};

/// Adds the report in a file NAME.ptxas.txt. Returns kInvalidArgument, with the first invalid line,
/// if the text is not the output of ptxas --resource-usage.
Status AddPtxasLog(std::string_view log, Compiled* compiled);

/// Adds the functions in a file NAME.ptx. Returns kInvalidArgument if the file has no .target.
Status AddPtx(std::string_view ptx, Compiled* compiled);

/// Returns the name of a function without namespaces, result and params. For the mangled name of
/// void stowage::gpu::(anonymous namespace)::Softmax<stowage::gpu::BF16, 4>(P), it is
/// "Softmax<BF16, 4>".
std::string ShortName(const std::string& mangled);

/// A requirement on kernels. If the patterns of several rules match the short name of a kernel,
/// the last rule applies. A * in a pattern matches any characters.
struct KernelRule {
  std::string_view kernels;
  int registers = 0;          // maximum number of registers
  bool tensor_cores = false;  // must have mma.sync
  bool warpgroups = false;    // must have wgmma.mma_async
  bool bulk_copies = false;   // must have bulk copies, and no async copies
  bool wide_loads = false;    // must have wide loads
};

/// Returns a line for each violation of the rules, or nothing. The violations are:
///
///  - a kernel that spills registers, has a stack, keeps values in local memory or adds floats
///    atomically;
///  - a kernel that uses more registers than its rule allows, does not have what its rule
///    requires, or does not bound its threads with STOWAGE_KERNEL;
///  - a kernel without a rule, and a rule without a kernel;
///  - a kernel that is in the PTX but not in the log of each architecture, or in a log but not in
///    the PTX. If PTX is only for one architecture ("90a"), only that log must list its kernels;
///  - a function that is called instead of inlined, unless it is one of CUDA's;
///  - a warning of ptxas, for example that it serializes warpgroup matmuls;
///  - no kernels at all.
std::vector<std::string> Faults(const Compiled& compiled,
                                std::span<const KernelRule> rules);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_RESOURCE_GATES_H_
