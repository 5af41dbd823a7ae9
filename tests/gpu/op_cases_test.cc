// Every row of the op test table on the GPU kernels, in the emulator.

#include "tests/support/op_cases.h"

#include <doctest/doctest.h>

#include "ir/dtype.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

void CheckAllRows(DType real) {
  int rows = 0;
  int runs = 0;
  for (const OpCase& c : OpCases(real)) {
    runs += CheckAgainstInterpreter(BuildCase(c), CaseLeaves(c), c.tolerance);
    ++rows;
  }
  MESSAGE("executed ", rows, " rows of the op test table in ", DTypeName(real),
          ", ", runs, " runs: the natural order of threads and three shuffled");
  CHECK(rows > 150);
}

TEST_CASE("every op case agrees with the interpreter in f32") {
  CheckAllRows(DType::kF32);
}

TEST_CASE("every op case agrees with the interpreter in bf16") {
  CheckAllRows(DType::kBF16);
}

TEST_CASE("some results of the op cases lie over their operands") {
  int overwritten = 0;
  for (const OpCase& c : OpCases(DType::kF32)) {
    overwritten +=
        RunInEmulator(BuildCase(c), CaseLeaves(c), {.overwrite = true})
            .overwritten;
  }
  CHECK(overwritten > 30);
}

}  // namespace
}  // namespace stowage
