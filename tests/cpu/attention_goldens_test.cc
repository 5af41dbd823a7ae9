// Attention and its gradients against PyTorch's: tests/goldens/attention.csv, which
// make_attention_goldens.py computed.

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "tests/cpu/op_goldens.h"

namespace stowage {
namespace {

struct Case {
  const char* name;
  Shape q, k;
  AttentionOptions options = {};
  std::vector<double> lengths = {};
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
  };
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
      return Attention(qkv[0], qkv[1], qkv[2], options);
    };
    if (!c.lengths.empty()) golden.others["lengths"] = c.lengths;
    compared += CompareOp(goldens, golden);
  }
  CHECK(compared == 2 * goldens.size());
}

}  // namespace
}  // namespace stowage
