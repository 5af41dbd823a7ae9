// Rows of the op test table: attention with its gradients, and rope.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
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
  std::vector<std::vector<int32_t>> segments =
      {};  // their lengths, of each entry
};

// (B, 2, T) of segments of so many positions; Value() where there are none.
Value SegmentsOf(GraphBuilder& g,
                 const std::vector<std::vector<int32_t>>& entries) {
  if (entries.empty()) return {};
  std::vector<int32_t> numbers;
  int64_t length = 0;
  for (const std::vector<int32_t>& lengths : entries) {
    std::vector<int32_t> begins, ends;
    for (const int32_t count : lengths) {
      const auto begin = static_cast<int32_t>(begins.size());
      begins.insert(begins.end(), static_cast<size_t>(count), begin);
      ends.insert(ends.end(), static_cast<size_t>(count), begin + count);
    }
    length = std::ssize(begins);
    numbers.insert(numbers.end(), begins.begin(), begins.end());
    numbers.insert(numbers.end(), ends.begin(), ends.end());
  }
  return Constant(g, DType::kI32, {std::ssize(entries), 2, length},
                  std::as_bytes(std::span(numbers)));
}

Attrs AttrsOf(const AttentionOptions& options) {
  Attrs attrs{{"scale", options.scale > 0 ? options.scale : 0.5},
              {"causal", int64_t{options.causal}},
              {"window", options.window}};
  if (options.softcap > 0) attrs.Set("softcap", options.softcap);
  return attrs;
}

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
      {", causal, of rows of 16 elements", {2, 140, 2, 16}, 140, 2, causal},
      {" in a window, of rows of 16 elements",
       {1, 270, 1, 16},
       270,
       1,
       window(100, true)},
      {" of key lengths", {3, 4, 4, 3}, 6, 2, {}, true},
      {", causal, of key lengths", {3, 5, 2, 4}, 6, 1, causal, true},
      {" of key lengths longer than a block", {2, 7, 1, 4}, 150, 1, {}, true},
      // Rows of 16 bytes in 16 bits.
      {", causal, of rows of 8 elements", {1, 70, 2, 8}, 80, 1, causal},
      {" of key lengths and rows of 8 elements",
       {2, 7, 1, 8},
       150,
       1,
       {},
       true},
      {" of segments", {2, 7, 2, 4}, 7, 1, {}, false, {{3, 4}, {1, 5, 1}}},
      {", causal, of segments",
       {2, 7, 2, 4},
       7,
       2,
       causal,
       false,
       {{7}, {2, 1, 4}}},
      {", causal, of segments longer and shorter than a block",
       {1, 220, 2, 4},
       220,
       1,
       causal,
       false,
       {{70, 1, 9, 100, 40}}},
      {" of segments longer and shorter than a block",
       {1, 150, 1, 4},
       150,
       1,
       {},
       false,
       {{10, 60, 3, 77}}},
      {" in a window, of segments",
       {1, 150, 1, 4},
       150,
       1,
       window(20, true),
       false,
       {{30, 5, 64, 51}}},
      {", causal, of segments and rows of 8 elements",
       {2, 90, 2, 8},
       90,
       2,
       causal,
       false,
       {{40, 50}, {89, 1}}},
      {" with a softcap", {2, 5, 4, 3}, 5, 2, {.scale = 2, .softcap = 1.5}},
      {", causal, with a softcap, longer than a block",
       {1, 70, 2, 8},
       70,
       1,
       {.scale = 1.5, .causal = true, .softcap = 2}},
      {" in a window, with a softcap, of segments",
       {1, 150, 1, 4},
       150,
       1,
       {.scale = 3, .causal = true, .window = 20, .softcap = 1},
       false,
       {{30, 5, 64, 51}}},
      {" of wide heads", {1, 3, 2, 256}, 5, 1, causal},
      {" of rows of 81 elements", {1, 20, 1, 81}, 33, 1},
  };
}

struct BiasCase {
  const char* variant;
  Shape q;     // B, T, H, D
  Shape k;     // B, S, G, D
  Shape bias;  // of (B, H, T, S)
  AttentionOptions options = {};
  bool lengths = false;
};

std::vector<BiasCase> BiasCases() {
  return {
      {" with a bias", {2, 5, 4, 3}, {2, 6, 2, 3}, {2, 4, 5, 6}},
      {" with a bias of relative positions, causal",
       {2, 4, 2, 3},
       {2, 7, 1, 3},
       {1, 2, 4, 7},
       {.scale = 0.6, .causal = true}},
      {" with a bias of a head in a window, of more queries",
       {2, 7, 2, 4},
       {2, 5, 2, 4},
       {1, 2, 1, 5},
       {.window = 4}},
      {" with a bias of padding, of key lengths",
       {3, 4, 2, 4},
       {3, 6, 2, 4},
       {3, 1, 1, 6},
       {},
       true},
      {" with a bias of padding, of key lengths, of as many queries",
       {2, 5, 2, 4},
       {2, 5, 1, 4},
       {2, 1, 1, 5},
       {},
       true},
      {" with a bias and a softcap, of key lengths",
       {2, 5, 2, 4},
       {2, 5, 1, 4},
       {2, 1, 5, 5},
       {.scale = 2, .softcap = 1.5},
       true},
      {" with a bias for all entries and heads",
       {2, 3, 4, 3},
       {2, 5, 1, 3},
       {1, 1, 3, 5}},
      {" with a bias for all, longer than a block",
       {1, 70, 2, 4},
       {1, 81, 1, 4},
       {1, 1, 1, 81},
       {.causal = true}},
      {" with a bias longer than a block",
       {1, 70, 1, 4},
       {1, 67, 1, 4},
       {1, 1, 70, 67}},
      {" of wide heads with a bias",
       {1, 3, 2, 160},
       {1, 5, 1, 160},
       {1, 2, 3, 5}},
  };
}

// attention, its gradient and that of the bias, with operands q, k, v, bias and
// perhaps key lengths.
void AddBiased(OpCaseTable& t, const BiasCase& c) {
  std::vector<LeafSpec> leaves = {t.Real("q", c.q), t.Real("k", c.k),
                                  t.Real("v", c.k), t.Real("bias", c.bias)};
  if (c.lengths) {
    leaves.push_back(
        t.Index("lengths", {c.q[0]}, static_cast<double>(c.k[1] + 1)));
    leaves.back().low = 1;
  }
  const auto options = [c](In in) {
    AttentionOptions o = c.options;
    o.bias = in[3];
    if (c.lengths) o.key_lengths = in[4];
    return o;
  };
  t.Add(OpKind::kAttention, c.variant, leaves, [=](GraphBuilder& g, In in) {
    const AttentionOptions& o = c.options;
    Out results = g.Emit(OpKind::kAttention, in, AttrsOf(o));
    results.resize(2);  // o, log-sum-exp
    return results;
  });
  const Shape& q = c.q;
  leaves.push_back(t.Real("o", q));
  // Above any, so that probabilities are below 1.
  LeafSpec log_sum_exp = t.Statistic("log_sum_exp", {q[0], q[2], q[1]});
  log_sum_exp.low = 3;
  log_sum_exp.high = 5;
  leaves.push_back(log_sum_exp);
  leaves.push_back(t.Real("d_o", q));
  const size_t o = c.lengths ? 5 : 4;
  t.Add(OpKind::kAttentionGrad, c.variant, leaves, [=](GraphBuilder&, In in) {
    const AttentionGrads grads = AttentionGrad(
        in[0], in[1], in[2], in[o], in[o + 1], in[o + 2], options(in));
    return Out{grads.dq, grads.dk, grads.dv};
  });
  if (c.k[1] == q[1]) {
    t.Add(OpKind::kAttentionQkvGrad, c.variant, leaves,
          [=](GraphBuilder& g, In in) {
            const AttentionOptions given = options(in);
            Out operands = {in[0],     in[1],     in[2],     in[o],
                            in[o + 1], in[o + 2], given.bias};
            if (c.lengths) operands.push_back(given.key_lengths);
            return g.Emit(OpKind::kAttentionQkvGrad, operands, AttrsOf(given));
          });
  }
  t.Add(OpKind::kAttentionBiasGrad, c.variant, leaves,
        [=](GraphBuilder&, In in) {
          return Out{AttentionBiasGrad(in[0], in[1], in[2], in[o], in[o + 1],
                                       in[o + 2], options(in))};
        });
}

// A bias of -inf where `open` does not hold: of some keys of an entry, and of all
// keys of some queries, which give zeros.
void AddClosed(OpCaseTable& t, const char* variant, const Shape& q,
               const Shape& k, const Shape& bias, const Shape& open) {
  std::vector<LeafSpec> leaves = {t.Real("q", q), t.Real("k", k),
                                  t.Real("v", k), t.Real("bias", bias),
                                  t.Bool("open", open)};
  const auto options = [=](GraphBuilder& g, In in) {
    const Value closed =
        Fill(g, -std::numeric_limits<double>::infinity(), in[3].dtype(), bias);
    return AttentionOptions{
        .scale = 0.5, .bias = Where(BroadcastTo(in[4], bias), in[3], closed)};
  };
  t.Add(OpKind::kAttention, variant, leaves, [=](GraphBuilder& g, In in) {
    return Out{Attention(in[0], in[1], in[2], options(g, in))};
  });
  leaves.push_back(t.Real("d_o", q));
  t.Add(
      OpKind::kAttentionBiasGrad, variant, leaves, [=](GraphBuilder& g, In in) {
        const AttentionOptions o = options(g, in);
        const std::vector<Value> made = g.Emit(
            OpKind::kAttention, Out{in[0], in[1], in[2], o.bias},
            {{"scale", 0.5}, {"causal", int64_t{0}}, {"window", int64_t{0}}});
        const AttentionGrads grads =
            AttentionGrad(in[0], in[1], in[2], made[0], made[1], in[5], o);
        return Out{
            AttentionBiasGrad(in[0], in[1], in[2], made[0], made[1], in[5], o),
            grads.dq, grads.dk, grads.dv};
      });
}

}  // namespace

void AddAttention(OpCaseTable& t) {
  const auto forward = [](GraphBuilder& g, In qkv, const AttentionCase& c) {
    const AttentionOptions& o = c.options;
    Out operands(qkv.begin(), qkv.end());
    if (!c.segments.empty()) operands.push_back(SegmentsOf(g, c.segments));
    std::vector<Value> results =
        g.Emit(OpKind::kAttention, operands, AttrsOf(o));
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
            options.segments = SegmentsOf(g, c.segments);
            const AttentionGrads grads = AttentionGrad(
                in[0], in[1], in[2], made[0], made[1], in.back(), options);
            return Out{grads.dq, grads.dk, grads.dv};
          });
    if (c.keys != c.q[1]) continue;
    t.Add(OpKind::kAttentionQkvGrad, c.variant, leaves,
          [=](GraphBuilder& g, In in) {
            const std::vector<Value> made =
                forward(g, in.first(in.size() - 1), c);
            Out operands = {in[0], in[1], in[2], made[0], made[1], in.back()};
            if (c.lengths) operands.push_back(in[3]);
            if (!c.segments.empty())
              operands.push_back(SegmentsOf(g, c.segments));
            const AttentionOptions& o = c.options;
            return g.Emit(OpKind::kAttentionQkvGrad, operands, AttrsOf(o));
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
  for (const BiasCase& c : BiasCases()) AddBiased(t, c);
  std::vector<LeafSpec> in_segments = {
      t.Real("q", {1, 80, 2, 3}), t.Real("k", {1, 80, 1, 3}),
      t.Real("v", {1, 80, 1, 3}), t.Real("bias", {1, 2, 80, 80})};
  t.Add(OpKind::kAttention, " with a bias, of segments", in_segments,
        [](GraphBuilder& g, In in) {
          return Out{Attention(in[0], in[1], in[2],
                               {.scale = 0.5,
                                .causal = true,
                                .segments = SegmentsOf(g, {{30, 6, 44}}),
                                .bias = in[3]})};
        });
  AddClosed(t, " with a bias that closes keys", {2, 4, 2, 3}, {2, 70, 1, 3},
            {2, 1, 1, 70}, {2, 1, 1, 70});
  AddClosed(t, " with a bias that closes queries", {2, 6, 2, 3}, {2, 5, 1, 3},
            {2, 2, 6, 5}, {2, 1, 6, 1});
  t.Add(OpKind::kAttention, " with a bias that is a view",
        {t.Real("q", {2, 4, 2, 3}), t.Real("k", {2, 5, 2, 3}),
         t.Real("bias", {4, 2, 6})},
        [](GraphBuilder&, In in) {
          // (1, H, T, S), repeated for each entry.
          const Value heads = Permute(Slice(in[2], 2, 1, 6), {1, 0, 2});
          return Out{Attention(in[0], in[1], in[1],
                               {.bias = BroadcastTo(heads, {2, 2, 4, 5})})};
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

// --- rope -----------------------------------------------------------------------------

void AddRope(OpCaseTable& t) {
  const auto add = [&](const std::string& variant, const Shape& x,
                       const RopeOptions& options) {
    t.Add(OpKind::kRope, variant, {t.Real("x", x)}, [=](GraphBuilder&, In in) {
      return Out{Rope(in[0], Value(), options)};
    });
  };
  add("", {2, 5, 3, 8}, {});
  add(" of neighbours", {2, 5, 3, 8}, {.interleaved = true});
  add(" of a part", {2, 3, 2, 11}, {.base = 500, .dims = 6});
  add(" of neighbours in a part, back", {1, 4, 2, 7},
      {.dims = 4, .interleaved = true, .inverse = true});
  add(" of wide heads", {1, 3, 6, 64}, {.base = 5e5});
  add(" of a single pair", {3, 2, 1, 2}, {.inverse = true});
  t.Add(OpKind::kRope, " at positions",
        {t.Real("x", {2, 3, 2, 4}), t.Index("positions", {3}, 9000)},
        [](GraphBuilder&, In in) { return Out{Rope(in[0], in[1])}; });
  t.Add(OpKind::kRope, " at positions of each example",
        {t.Real("x", {2, 3, 2, 4}), t.Index("positions", {2, 3}, 9000)},
        [](GraphBuilder&, In in) {
          return Out{Rope(in[0], in[1], {.dims = 2, .interleaved = true})};
        });
  t.Add(OpKind::kRope, " of a packed qkv", {t.Real("qkv", {2, 7, 24})},
        [](GraphBuilder&, In in) {
          const std::vector<Value> parts = Split(in[0], 2, {8, 8, 8});
          return Out{Rope(Reshape(parts[1], {2, 7, 2, 4}))};
        });
}

}  // namespace stowage::testing
