// local_response_norm and its gradient against PyTorch's, by the interpreter and by
// the CPU's kernels in f64: tests/goldens/local_response_norm.csv, which
// make_local_response_norm_goldens.py computed.

#include <doctest/doctest.h>

#include <span>
#include <vector>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "tests/cpu/op_goldens.h"
#include "tests/support/golden_rows.h"

namespace stowage {
namespace {

struct Case {
  const char* name;
  Shape x;
  LocalResponse response;
};

// Those of the script.
std::vector<Case> Cases() {
  return {
      {"alexnet",
       {2, 11, 4, 3},
       {.size = 5, .alpha = 1e-4, .beta = 0.75, .bias = 1}},
      {"strong", {2, 7, 5, 6}, {.size = 3, .alpha = 2, .beta = 1.5, .bias = 2}},
      {"even", {3, 8, 9}, {.size = 4, .alpha = 1, .beta = 0.5, .bias = 0.5}},
      {"wider than the channels",
       {2, 3, 2, 3, 4},
       {.size = 12, .alpha = 5, .beta = 0.75, .bias = 1}},
  };
}

TEST_CASE("local response norms and their gradients are PyTorch's") {
  const std::vector<OpGolden> goldens =
      ReadOpGoldens("tests/goldens/local_response_norm.csv");
  size_t compared = 0;
  for (const Case& c : Cases()) {
    const auto build = [&c](GraphBuilder&, std::span<const Value> operands) {
      return LocalResponseNorm(operands[0], c.response);
    };
    compared += CompareOp(goldens, {c.name, {{"x", c.x}}, build});
  }
  CHECK(compared == 2 * goldens.size());
}

}  // namespace
}  // namespace stowage
