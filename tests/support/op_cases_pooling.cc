// Rows of the op test table for max_pool, avg_pool and their gradients.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/attrs.h"
#include "tests/support/op_case_table.h"

namespace stowage::testing {
namespace {

struct WindowCase {
  const char* variant;
  Shape x;
  Shape y;  // as worked out by hand
  Axes kernel, stride, pad_before, pad_after, dilation;
  bool ceil_mode = false;
};

std::vector<WindowCase> WindowCases() {
  return {
      {"", {2, 3, 4, 6}, {2, 3, 2, 3}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},
      {" with rows left over",
       {1, 2, 5, 7},
       {1, 2, 2, 2},
       {2, 3},
       {2, 3},
       {0, 0},
       {0, 0},
       {1, 1}},
      {" with padding, overlapping",
       {1, 2, 7, 5},
       {1, 2, 4, 5},
       {3, 2},
       {2, 1},
       {1, 0},
       {1, 1},
       {1, 1}},
      {" over all of it",
       {2, 1, 3, 3},
       {2, 1, 1, 1},
       {3, 3},
       {1, 1},
       {0, 0},
       {0, 0},
       {1, 1}},
      {" of rows, over the end",
       {1, 2, 9},
       {1, 2, 4},
       {3},
       {3},
       {1},
       {0},
       {1},
       true},
      {" over the end and its padding",
       {1, 1, 5, 6},
       {1, 1, 3, 3},
       {3, 3},
       {2, 3},
       {1, 1},
       {1, 0},
       {1, 1},
       true},
      {" of volumes",
       {1, 2, 4, 3, 5},
       {1, 2, 2, 3, 3},
       {2, 2, 3},
       {2, 1, 2},
       {0, 1, 1},
       {0, 0, 1},
       {1, 1, 1}},
      {" that does not meet", {1, 2, 8}, {1, 2, 2}, {2}, {5}, {0}, {0}, {1}},
  };
}

Attrs AttrsOf(OpKind op, const WindowCase& w, bool count_include_pad) {
  Attrs attrs;
  if (op == OpKind::kAvgPoolGrad) {
    attrs.Set("shape", Axes(w.x.begin(), w.x.end()));
  }
  attrs.Set("kernel", w.kernel);
  attrs.Set("stride", w.stride);
  attrs.Set("pad_before", w.pad_before);
  attrs.Set("pad_after", w.pad_after);
  const bool is_max = op == OpKind::kMaxPool || op == OpKind::kMaxPoolGrad;
  if (is_max) attrs.Set("dilation", w.dilation);
  attrs.Set("ceil_mode", int64_t{w.ceil_mode});
  if (!is_max) attrs.Set("count_include_pad", int64_t{count_include_pad});
  return attrs;
}

void AddWindow(OpCaseTable& t, OpKind op, const std::string& variant,
               std::vector<LeafSpec> leaves, Attrs attrs) {
  t.Add(op, variant, std::move(leaves),
        [op, attrs = std::move(attrs)](GraphBuilder& g, In in) {
          return Out{g.Emit(op, in, attrs)[0]};
        });
}

}  // namespace

void AddPooling(OpCaseTable& t) {
  std::vector<WindowCase> of_max = WindowCases();
  of_max.push_back({" with dilation",
                    {1, 2, 7, 6},
                    {1, 2, 3, 2},
                    {3, 2},
                    {1, 3},
                    {0, 1},
                    {0, 2},
                    {2, 3}});
  for (const WindowCase& w : of_max) {
    const LeafSpec x = t.Spread("x", w.x);
    AddWindow(t, OpKind::kMaxPool, w.variant, {x},
              AttrsOf(OpKind::kMaxPool, w, false));
    AddWindow(t, OpKind::kMaxPoolGrad, w.variant, {x, t.Real("dy", w.y)},
              AttrsOf(OpKind::kMaxPoolGrad, w, false));
  }
  for (const WindowCase& w : WindowCases()) {
    for (const bool counts : {false, true}) {
      const std::string variant =
          std::string(w.variant) + (counts ? ", padding counted" : "");
      AddWindow(t, OpKind::kAvgPool, variant, {t.Real("x", w.x)},
                AttrsOf(OpKind::kAvgPool, w, counts));
      AddWindow(t, OpKind::kAvgPoolGrad, variant, {t.Real("dy", w.y)},
                AttrsOf(OpKind::kAvgPoolGrad, w, counts));
    }
  }

  const PoolWindow window = {.kernel = 2, .stride = 1};
  t.Add(OpKind::kMaxPool, " of a view", {t.Spread("x", {1, 4, 5, 2})},
        [window](GraphBuilder&, In in) {
          return Out{MaxPool(Permute(in[0], {0, 3, 1, 2}), window)};
        });
  t.Add(OpKind::kAvgPool, " of a view", {t.Real("x", {1, 4, 5, 2})},
        [window](GraphBuilder&, In in) {
          return Out{AvgPool(Permute(in[0], {0, 3, 1, 2}), window)};
        });
  // Integers of three kinds, so that windows hold equals. A leaf of integers, for
  // there is no derivative.
  const DType real = t.real();
  t.Add(OpKind::kMaxPool, " among equals", {t.Index("x", {1, 2, 5, 5}, 3)},
        [window, real](GraphBuilder&, In in) {
          return Out{MaxPool(Cast(in[0], real), window)};
        });
  const WindowCase overlapping = {"",     {1, 2, 5, 5}, {1, 2, 5, 5}, {3, 3},
                                  {1, 1}, {1, 1},       {1, 1},       {1, 1}};
  t.Add(OpKind::kMaxPoolGrad, " among equals",
        {t.Index("x", {1, 2, 5, 5}, 3), t.Real("dy", {1, 2, 5, 5})},
        [attrs = AttrsOf(OpKind::kMaxPoolGrad, overlapping, false), real](
            GraphBuilder&, In in) {
          return Out{
              Apply(OpKind::kMaxPoolGrad, {Cast(in[0], real), in[1]}, attrs)};
        });
}

}  // namespace stowage::testing
