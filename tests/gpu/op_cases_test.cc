// Every row of the op test table on the GPU kernels, in the emulator.

#include "tests/support/op_cases.h"

#include <doctest/doctest.h>

#include "cpu/cpu_backend.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "tests/gpu/op_check.h"
#include "tests/gpu/run_graph.h"
#include "tests/support/elements.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

void CheckAllRows(DType real) {
  int rows = 0;
  int runs = 0;
  for (const OpCase& c : GpuOpCases(real)) {
    runs += CheckAgainstInterpreter(BuildCase(c), CaseLeaves(c), c.tolerance);
    ++rows;
  }
  MESSAGE("executed ", rows, " rows of the op test table in ", DTypeName(real),
          ", ", runs,
          " runs: in the natural order of threads, shuffled, and warp by warp");
  CHECK(rows > 150);
}

TEST_CASE("every op case agrees with the interpreter in f32") {
  CheckAllRows(DType::kF32);
}

TEST_CASE("every op case agrees with the interpreter in bf16") {
  CheckAllRows(DType::kBF16);
}

TEST_CASE("every op case agrees with the interpreter in f16") {
  CheckAllRows(DType::kF16);
}

TEST_CASE("every op case agrees with the CPU's kernels in f32") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  int rows = 0;
  for (const OpCase& c : GpuOpCases(DType::kF32)) {
    if (c.op == OpKind::kAdamWSplitUpdate) continue;  // not on the CPU
    CAPTURE(c.name);
    const Graph graph = BuildCase(c);
    const Tensors leaves = CaseLeaves(c);
    const auto on_cpu = testing::RunOnce(graph, leaves, *cpu);
    REQUIRE_MESSAGE(on_cpu.ok(), on_cpu.error().message);
    const GpuRun on_gpu = RunInEmulator(graph, leaves);
    for (const GraphOutput& output : graph.outputs()) {
      CAPTURE(output.name);
      const DType dtype = graph.value(output.value).type.dtype;
      CHECK(LargestError(on_gpu.values.at(output.name),
                         testing::DecodeElements(
                             dtype, on_cpu->at(output.name))) <= c.tolerance);
    }
    ++rows;
  }
  MESSAGE("compared ", rows, " rows with the CPU's kernels");
}

TEST_CASE("some results of the op cases lie over their operands") {
  int overwritten = 0;
  for (const OpCase& c : GpuOpCases(DType::kF32)) {
    overwritten +=
        RunInEmulator(BuildCase(c), CaseLeaves(c), {.overwrite = true})
            .overwritten;
  }
  CHECK(overwritten > 30);
}

}  // namespace
}  // namespace stowage
