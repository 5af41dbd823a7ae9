// The kernels as nvcc compiled them, held against the rules below.

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/gpu/resource_gates.h"

namespace stowage::testing {
namespace {

// A thread can have 255 registers; a multiprocessor has 65,536 for up to 2,048
// threads. At 128, 16 warps fit, which hides the latency of memory.
constexpr KernelRule kRules[] = {
    {.kernels = "*", .registers = 128},
    // Walks along rows, where the flag says that they start at multiples of 16
    // bytes, and down columns several at a time.
    {.kernels = "*Rows<*true*>", .registers = 128, .wide_loads = true},
    {.kernels = "Row*<*true>", .registers = 128, .wide_loads = true},
    {.kernels = "ReduceColumns<*4>", .registers = 128, .wide_loads = true},
    {.kernels = "ReduceColumns<*8>", .registers = 128, .wide_loads = true},
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
