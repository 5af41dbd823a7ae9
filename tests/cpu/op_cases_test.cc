// Every row of the op test table, in f32 and f64, on the CPU kernels.

#include "tests/support/op_cases.h"

#include <doctest/doctest.h>

#include "tests/cpu/run_graph.h"

namespace stowage {
namespace {

TEST_CASE("every op case agrees with the interpreter in f32") {
  for (const OpCase& c : OpCases(DType::kF32)) {
    CheckAgainstInterpreter(BuildCase(c), CaseLeaves(c), c.tolerance);
  }
}

TEST_CASE("every op case agrees with the interpreter in f64") {
  for (const OpCase& c : OpCases(DType::kF64)) {
    CheckAgainstInterpreter(BuildCase(c), CaseLeaves(c), c.tolerance);
  }
}

TEST_CASE("some results of the op cases lie over their operands") {
  int overwritten = 0;
  for (const OpCase& c : OpCases(DType::kF32)) {
    overwritten +=
        RunOnCpu(BuildCase(c), CaseLeaves(c), {.overwrite = true}).overwritten;
  }
  CHECK(overwritten > 30);
}

}  // namespace
}  // namespace stowage
