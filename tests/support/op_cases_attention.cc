// Rows of the op test table for attention and its gradient.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/op_case_table.h"

namespace stowage::testing {
namespace {

struct AttentionCase {
  const char* variant;
  Shape q;           // B, T, H, D
  int64_t keys = 0;  // S
  int64_t groups = 0;
  AttentionOptions options = {};
  bool lengths = false;
};

std::vector<AttentionCase> AttentionCases() {
  const AttentionOptions causal = {.scale = 0.6, .causal = true};
  const auto window = [](int64_t size, bool is_causal) {
    return AttentionOptions{.scale = 0.6, .causal = is_causal, .window = size};
  };
  return {
      {" of all keys", {2, 5, 4, 3}, 5, 4},
      {" of all keys with shared heads", {2, 5, 4, 3}, 5, 2},
      {", causal", {2, 5, 4, 3}, 5, 4, causal},
      {", causal, with one key head", {2, 5, 4, 3}, 5, 1, causal},
      {", causal, longer than a block", {1, 70, 1, 4}, 70, 1, causal},
      {", causal, of more keys than queries", {1, 3, 4, 5}, 7, 2, causal},
      {", causal, of more keys, longer than a block",
       {1, 70, 1, 4},
       150,
       1,
       causal},
      {" of one query", {2, 1, 2, 4}, 9, 1, causal},
      {" of more queries than keys", {1, 7, 2, 4}, 3, 1},
      {" of more queries than keys, longer than a block", {1, 70, 1, 4}, 67, 1},
      {" in a window", {1, 9, 2, 4}, 9, 2, window(3, true)},
      {" in a window of one key", {1, 6, 1, 4}, 8, 1, window(1, true)},
      {" in a window of more keys", {1, 4, 4, 3}, 11, 2, window(5, true)},
      {" in a window on both sides", {1, 6, 2, 4}, 8, 1, window(3, false)},
      {" in a window on both sides of fewer keys",
       {1, 8, 1, 4},
       6,
       1,
       window(3, false)},
      {" in a window shorter than a block",
       {1, 150, 1, 4},
       150,
       1,
       window(20, true)},
      {" in a window longer than a block",
       {1, 70, 1, 4},
       150,
       1,
       window(70, false)},
      {" of key lengths", {3, 4, 4, 3}, 6, 2, {}, true},
      {", causal, of key lengths", {3, 5, 2, 4}, 6, 1, causal, true},
      {" of key lengths longer than a block", {2, 7, 1, 4}, 150, 1, {}, true},
      {" of wide heads", {1, 3, 2, 256}, 5, 1, causal},
      {" of rows of 81 elements", {1, 20, 1, 81}, 33, 1},
  };
}

}  // namespace

void AddAttention(OpCaseTable& t) {
  const auto forward = [](GraphBuilder& g, In qkv, const AttentionCase& c) {
    const AttentionOptions& o = c.options;
    std::vector<Value> results = g.Emit(OpKind::kAttention, qkv,
                                        {{"scale", o.scale > 0 ? o.scale : 0.5},
                                         {"causal", int64_t{o.causal}},
                                         {"window", o.window}});
    results.resize(2);  // o, log-sum-exp
    return results;
  };
  for (const AttentionCase& c : AttentionCases()) {
    const Shape k = {c.q[0], c.keys, c.groups, c.q[3]};
    std::vector<LeafSpec> leaves = {t.Real("q", c.q), t.Real("k", k),
                                    t.Real("v", k)};
    const auto limit = static_cast<double>(c.keys + 1);
    if (c.lengths) {
      leaves.push_back(t.Index("lengths", {c.q[0]}, limit));
      leaves.back().low = 1;
    }
    t.Add(OpKind::kAttention, c.variant, leaves,
          [=](GraphBuilder& g, In in) { return forward(g, in, c); });
    leaves.push_back(t.Real("d_o", c.q));
    t.Add(OpKind::kAttentionGrad, c.variant, leaves,
          [=](GraphBuilder& g, In in) {
            const std::vector<Value> made =
                forward(g, in.first(in.size() - 1), c);
            AttentionOptions options = c.options;
            if (options.scale == 0) options.scale = 0.5;
            if (c.lengths) options.key_lengths = in[3];
            const AttentionGrads grads = AttentionGrad(
                in[0], in[1], in[2], made[0], made[1], in.back(), options);
            return Out{grads.dq, grads.dk, grads.dv};
          });
  }
  // Query 4 reads keys 3 and 4: of lengths 1 to 3 that leaves none. Its
  // log-sum-exp, -inf, is not looked at.
  std::vector<LeafSpec> short_of_keys = {
      t.Real("q", {4, 5, 2, 3}), t.Real("k", {4, 5, 1, 3}),
      t.Real("v", {4, 5, 1, 3}), t.Index("lengths", {4}, 4)};
  short_of_keys.back().low = 1;
  t.Add(OpKind::kAttention, " of queries that are left without a key",
        short_of_keys, [](GraphBuilder&, In in) {
          return Out{
              Attention(in[0], in[1], in[2],
                        {.causal = true, .window = 2, .key_lengths = in[3]})};
        });
  t.Add(OpKind::kAttention, " of a packed qkv", {t.Real("qkv", {2, 7, 24})},
        [](GraphBuilder&, In in) {
          const std::vector<Value> parts = Split(in[0], 2, {8, 8, 8});
          const Shape heads = {2, 7, 2, 4};
          return Out{CausalAttention(Reshape(parts[0], heads),
                                     Reshape(parts[1], heads),
                                     Reshape(parts[2], heads))};
        });
}

}  // namespace stowage::testing
