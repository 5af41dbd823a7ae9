// The kernels as nvcc compiled them, held against the rules below.

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpu/resource_gates.h"

namespace stowage::testing {
namespace {

// A thread can have 255 registers; a multiprocessor has 65,536 for up to 2,048
// threads. At 128, 16 warps fit, which hides the latency of memory.
constexpr int kRegisters = 128;

constexpr KernelRule Wide(std::string_view kernels) {
  return {.kernels = kernels, .registers = kRegisters, .wide_loads = true};
}
constexpr KernelRule Plain(std::string_view kernels) {
  return {.kernels = kernels, .registers = kRegisters};
}
// Keeps its accumulators in registers, a few warps to a multiprocessor.
constexpr KernelRule Tensor(std::string_view kernels) {
  return {.kernels = kernels, .registers = 255, .tensor_cores = true};
}

// A warpgroup's accumulators take more still, and its tiles no registers.
constexpr KernelRule Warpgroups(std::string_view kernels, int registers) {
  return {.kernels = kernels,
          .registers = registers,
          .warpgroups = true,
          .bulk_copies = true};
}

// The last that fits counts. Numbers in names are elements taken at a time; true
// says that rows start at multiples of 16 bytes.
constexpr KernelRule kRules[] = {
    Plain("*"),
    Wide("*Rows<*true*>"),
    Wide("Row*<*true>"),
    Wide("ReduceColumns<*4>"),
    Wide("ReduceColumns<*8>"),
    Wide("MapKernel<*, 4, *>"),
    Wide("MapKernel<*, 8, *>"),
    Plain("MapKernel<SameFn, *>"),  // casts: what they read may be narrower
    Wide("DropoutKernel<*, 4>"),
    Wide("DropoutKernel<*, 8>"),
    Wide("UpdateKernel<*>"),
    // Four elements at a time, as many as share a draw, none of more than two bytes.
    Plain("UpdateKernel<Bf16*<SplitWeights<*>"),
    Tensor("Attention*<*>"),
    Plain("AttentionDelta<*>"),
    // Sums of dq come back from memory.
    {.kernels = "AttentionGradFiveProducts<*>",
     .registers = 255,
     .tensor_cores = true,
     .wide_loads = true},
    Warpgroups("AttentionWarpgroup*<*>", 255),
    // Two blocks of two warpgroups to a multiprocessor.
    Warpgroups("AttentionWarpgroupForward<*, 32>", kRegisters),
    Warpgroups("AttentionWarpgroupForward<*, 64>", kRegisters),
    {.kernels = "SimtAttentionGrad*<*>", .registers = 168},
    // Two blocks of 256 threads, but for the largest tiles in f32.
    {.kernels = "ConvProduct<*F16*>", .registers = 128, .tensor_cores = true},
    {.kernels = "WeightGradProduct<*F16*>",
     .registers = 128,
     .tensor_cores = true},
    {.kernels = "ConvProduct<float, *, 128, 128>", .registers = 168},
    {.kernels = "WeightGradProduct<float, 128, 128>", .registers = 168},
};

TEST_CASE("kernels spill nothing and use what the hardware has") {
  const char* paths = std::getenv("STOWAGE_KERNEL_REPORTS");
  REQUIRE(paths != nullptr);
  Compiled compiled;
  std::istringstream words(paths);
  for (std::string path; words >> path;) {
    CAPTURE(path);
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    REQUIRE(file.good());
    const Status read = path.ends_with(".ptx")
                            ? AddPtx(text.str(), &compiled)
                            : AddPtxasLog(text.str(), &compiled);
    INFO((read.ok() ? "" : read.error().message));
    CHECK(read.ok());
  }
  for (const std::string& fault : Faults(compiled, kRules)) FAIL_CHECK(fault);
}

}  // namespace
}  // namespace stowage::testing
