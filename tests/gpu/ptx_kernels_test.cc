// Tests on PTX alone: rows that would take the emulator a minute, and, after all other tests of
// the program, that each kernel was run but those of ranks (ptx_kernels_of_ranks_test.cc).

#include "tests/gpu/ptx_kernels.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/gpu/ptx/ptx_grids.h"
#include "tests/gpu/run_graph.h"

namespace stowage::testing {
namespace {

TEST_CASE("rows in so many pieces that these are a row of a block") {
  constexpr int64_t kCount = 1025 * 32768 + 5;
  Tensors leaves;
  leaves["x"].resize(static_cast<size_t>(kCount));
  // One in each of some pieces, the last among them.
  for (size_t i = 0; i < leaves["x"].size(); i += 1'048'577) {
    leaves["x"][i] = 1;
  }
  leaves["x"].back() = 2;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Graph graph = MakeGraph("long row", [&](GraphBuilder& g) {
      const Value x = g.Input("x", dtype, {kCount});
      g.Output("sum", ReduceSum(x, {0}));
      g.Output("max", ReduceMax(x, {0}));
    });
    const GpuRun run = RunInEmulator(graph, leaves);
    REQUIRE(run.wrong == "");
    CHECK(run.values.at("sum")[0] == 35);
    CHECK(run.values.at("max")[0] == 2);
  }
}

TEST_SUITE("~ at the end") {
  TEST_CASE("every kernel that nvcc compiled was run") {
    size_t missing = 0;
    for (const std::string& kernel : ptx::KernelsNotRun()) {
      ++missing;
      if (!IsOfRanks(kernel)) FAIL_CHECK(kernel);
    }
    MESSAGE("ran ", ptx::AllKernels().size() - missing, " of ",
            ptx::AllKernels().size(), " kernels, ", ptx::InstructionsExecuted(),
            " instructions of warps");
  }
}

}  // namespace
}  // namespace stowage::testing
