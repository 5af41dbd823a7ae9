// Attention and its gradients against PyTorch's: tests/goldens/attention.csv, which
// make_attention_goldens.py computed.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "tests/cpu/op_goldens.h"
#include "tests/support/golden_rows.h"

namespace stowage {
namespace {

struct Case {
  const char* name;
  Shape q, k;
  AttentionOptions options = {};
  std::vector<double> lengths = {};
  Shape bias = {};                   // none where of rank 0
  std::vector<int64_t> closed = {};  // how many of an entry's last keys
};

// Those of the script.
std::vector<Case> Cases() {
  return {
      {"all keys", {2, 9, 4, 8}, {2, 9, 4, 8}},
      {"more keys and shared heads", {2, 5, 6, 8}, {2, 13, 2, 8}},
      {"more queries", {1, 13, 2, 8}, {1, 5, 1, 8}},
      {"causal with shared heads",
       {2, 9, 4, 8},
       {2, 9, 1, 8},
       {.causal = true}},
      {"causal with more keys",
       {1, 70, 2, 4},
       {1, 90, 2, 4},
       {.scale = 0.7, .causal = true}},
      {"causal window",
       {1, 70, 2, 4},
       {1, 90, 1, 4},
       {.causal = true, .window = 7}},
      {"window", {1, 20, 1, 4}, {1, 24, 1, 4}, {.window = 5}},
      {"lengths", {3, 5, 2, 8}, {3, 11, 2, 8}, {}, {4, 11, 1}},
      {"bias", {2, 5, 4, 8}, {2, 7, 2, 8}, {}, {}, {2, 4, 5, 7}},
      {"relative positions",
       {2, 9, 4, 8},
       {2, 9, 4, 8},
       {.causal = true},
       {},
       {1, 4, 9, 9}},
      {"bias of heads",
       {2, 70, 4, 4},
       {2, 75, 1, 4},
       {.causal = true, .window = 9},
       {},
       {1, 4, 1, 75}},
      {"bias for all", {2, 6, 2, 4}, {2, 5, 2, 4}, {}, {}, {1, 1, 1, 5}},
      {"padding",
       {3, 5, 2, 8},
       {3, 11, 2, 8},
       {},
       {},
       {3, 1, 1, 11},
       {7, 0, 10}},
  };
}

// To be added to a bias (B, 1, 1, S).
std::vector<double> ClosedKeys(const Case& c) {
  std::vector<double> added;
  for (const int64_t closed : c.closed) {
    for (int64_t s = 0; s < c.bias[3]; ++s) {
      added.push_back(s < c.bias[3] - closed ? 0 : -INFINITY);
    }
  }
  return added;
}

TEST_CASE("attention and its gradients are PyTorch's") {
  const std::vector<OpGolden> goldens =
      ReadOpGoldens("tests/goldens/attention.csv");
  size_t compared = 0;
  for (const Case& c : Cases()) {
    GoldenCase golden = {c.name, {{"q", c.q}, {"k", c.k}, {"v", c.k}}, {}};
    golden.build = [&c](GraphBuilder& g, std::span<const Value> qkv) {
      AttentionOptions options = c.options;
      if (!c.lengths.empty()) {
        options.key_lengths = g.Input("lengths", DType::kI32, {c.q[0]});
      }
      if (c.bias.rank() > 0) options.bias = qkv[3];
      if (!c.closed.empty()) {
        options.bias = Add(qkv[3], g.Input("closed", DType::kF64, c.bias));
      }
      return Attention(qkv[0], qkv[1], qkv[2], options);
    };
    if (c.bias.rank() > 0) golden.operands.emplace_back("bias", c.bias);
    if (!c.lengths.empty()) golden.others["lengths"] = c.lengths;
    if (!c.closed.empty()) golden.others["closed"] = ClosedKeys(c);
    compared += CompareOp(goldens, golden);
  }
  CHECK(compared == 2 * goldens.size());
}

}  // namespace
}  // namespace stowage
