// After the tests of collectives on PTX: each kernel that only they launch was run.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/gpu/ptx/ptx_grids.h"
#include "tests/gpu/ptx_kernels.h"

namespace stowage::testing {
namespace {

TEST_SUITE("~ at the end") {
  TEST_CASE("every kernel of collectives was run") {
    CHECK(std::ranges::any_of(ptx::AllKernels(), IsOfRanks));
    for (const std::string& kernel : ptx::KernelsNotRun()) {
      if (IsOfRanks(kernel)) FAIL_CHECK(kernel);
    }
  }
}

}  // namespace
}  // namespace stowage::testing
