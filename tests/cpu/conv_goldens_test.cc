// Convolutions and their gradients against PyTorch's, by the interpreter and by
// the CPU's kernels in f64: tests/goldens/convolutions.csv, which
// make_conv_goldens.py computed.

#include <doctest/doctest.h>

#include <functional>
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
  Shape x, w;
  std::function<Value(Value, Value)> build;
};

// Those of the script.
std::vector<Case> Cases() {
  const auto conv = [](ConvOptions options) {
    return [options](Value x, Value w) { return Conv(x, w, options); };
  };
  const auto transposed = [](ConvTransposeOptions options) {
    return [options](Value x, Value w) { return ConvTranspose(x, w, options); };
  };
  return {
      {"conv plain", {2, 3, 8, 7}, {4, 3, 3, 2}, conv({})},
      {"conv strides and dilation",
       {2, 4, 9, 10},
       {6, 2, 3, 3},
       conv({.stride = {2, 1},
             .padding = {1, 2},
             .dilation = {1, 2},
             .groups = 2})},
      {"conv depthwise",
       {2, 5, 7, 7},
       {5, 1, 3, 3},
       conv({.stride = 2, .padding = 1, .groups = 5})},
      {"conv one dimension",
       {3, 2, 11},
       {4, 2, 4},
       conv({.stride = 3, .padding = 2})},
      {"conv three dimensions",
       {1, 2, 4, 5, 6},
       {3, 2, 2, 3, 2},
       conv({.stride = {1, 2, 1}, .padding = {1, 0, 1}})},
      {"transposed twofold",
       {2, 6, 4, 5},
       {6, 3, 2, 2},
       transposed({.stride = 2})},
      {"transposed with output padding",
       {2, 4, 5, 4},
       {4, 3, 3, 3},
       transposed({.stride = {2, 3},
                   .padding = 1,
                   .groups = 2,
                   .output_padding = {1, 2}})},
      {"transposed with dilation",
       {1, 3, 6},
       {3, 2, 3},
       transposed({.stride = 2, .padding = 1, .dilation = 2})},
  };
}

TEST_CASE("convolutions and their gradients are PyTorch's") {
  const std::vector<OpGolden> goldens =
      ReadOpGoldens("tests/goldens/convolutions.csv");
  size_t compared = 0;
  for (const Case& c : Cases()) {
    const auto build = [&c](GraphBuilder&, std::span<const Value> operands) {
      return c.build(operands[0], operands[1]);
    };
    compared += CompareOp(goldens, {c.name, {{"x", c.x}, {"w", c.w}}, build});
  }
  CHECK(compared == 2 * goldens.size());
}

}  // namespace
}  // namespace stowage
