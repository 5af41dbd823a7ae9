// lstm and its gradients against PyTorch's, by the interpreter and by the CPU's
// kernels in f64: tests/goldens/lstm.csv, which make_lstm_goldens.py computed.

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "tests/cpu/op_goldens.h"

namespace stowage {
namespace {

struct Case {
  const char* name;
  int64_t batch, time, hidden;
  bool reverse;
};

// Those of the script.
constexpr Case kCases[] = {
    {"forward", 3, 5, 4, false},
    {"backward", 2, 4, 7, true},
    {"one position", 2, 1, 3, false},
    {"wide", 5, 3, 37, false},
};

TEST_CASE("lstm sequences and their gradients are PyTorch's") {
  const std::vector<OpGolden> goldens = ReadOpGoldens("tests/goldens/lstm.csv");
  size_t compared = 0;
  for (const Case& c : kCases) {
    const Shape state = {c.batch, c.hidden};
    compared += CompareOp(
        goldens, {c.name,
                  {{"gates", {c.batch, c.time, 4 * c.hidden}},
                   {"h0", state},
                   {"c0", state},
                   {"w", {4 * c.hidden, c.hidden}}},
                  [&c](GraphBuilder&, std::span<const Value> operands) {
                    return LstmSequence(operands[0], operands[1], operands[2],
                                        operands[3], c.reverse)
                        .h;
                  }});
  }
  CHECK(compared == 2 * goldens.size());
}

}  // namespace
}  // namespace stowage
