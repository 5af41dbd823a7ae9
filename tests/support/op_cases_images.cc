// Rows of the op test table: convolutions, each with both of its gradients; pooling, resize
// and pad.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/attrs.h"
#include "tests/support/op_case_table.h"

namespace stowage::testing {
namespace {

// A convolution: of x by w.
struct Case {
  const char* variant;
  Shape x, w;
  ConvOptions options;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> kCases = {
      {"", {2, 3, 5, 7}, {4, 3, 3, 2}, {}},
      {" with padding and strides",
       {2, 2, 7, 8},
       {3, 2, 3, 3},
       {.stride = {2, 3}, .padding = 1}},
      {" with uneven padding, in one dimension",
       {2, 3, 6},
       {2, 3, 4},
       {.stride = 2, .padding = {0, 3}}},
      {" with dilation and strides",
       {1, 2, 9, 8},
       {3, 2, 3, 3},
       {.stride = {3, 2}, .padding = {2, 0, 1, 2}, .dilation = {2, 3}}},
      {" with taps beyond the image",
       {2, 3, 4, 5},
       {4, 3, 3, 3},
       {.padding = 6, .dilation = 6}},
      {" with taps far apart and strides",
       {1, 2, 20, 9},
       {2, 2, 2, 3},
       {.stride = {1, 2}, .dilation = {15, 3}}},
      {" depthwise with taps beyond the image",
       {2, 3, 4, 5},
       {3, 1, 3, 3},
       {.padding = 6, .dilation = 6, .groups = 3}},
      {" in groups", {2, 6, 4, 5}, {4, 3, 3, 3}, {.padding = 1, .groups = 2}},
      {" depthwise", {2, 5, 6, 6}, {5, 1, 3, 3}, {.padding = 1, .groups = 5}},
      {" depthwise with strides and several filters a channel",
       {2, 3, 7, 6},
       {6, 1, 3, 3},
       {.stride = 2, .padding = {0, 1, 1, 0}, .groups = 3}},
      {" depthwise by one element with strides",
       {2, 3, 5, 4},
       {3, 1, 1, 2},
       {.stride = {2, 3}, .groups = 3}},
      {" by one element", {3, 4, 3, 5}, {6, 4, 1, 1}, {}},
      {" by one element with strides",
       {2, 3, 5, 4},
       {4, 3, 1, 1},
       {.stride = 2}},
      {" in three dimensions",
       {1, 2, 4, 3, 5},
       {2, 2, 2, 3, 2},
       {.stride = {2, 1, 2}, .padding = {1, 0, 1, 0, 1, 1}}},
      // More than a block of columns and of depth; of rows; of columns' depth.
      {" of many channels", {3, 30, 5, 5}, {10, 30, 3, 3}, {.padding = 1}},
      {" of many filters", {1, 2, 4, 4}, {70, 2, 2, 2}, {}},
      {" into many channels", {1, 70, 4, 4}, {2, 70, 2, 2}, {}},
      {" of a wide image", {1, 2, 24, 21}, {2, 2, 2, 2}, {}},
      {" of long lines", {2, 2, 700}, {2, 2, 3}, {.padding = {1, 2}}},
      {" of long lines with strides",
       {1, 1, 2, 900},
       {3, 1, 1, 4},
       {.stride = 2, .padding = {0, 1}}},
      {" of wide layers",
       {2, 1, 3, 19, 27},
       {2, 1, 2, 3, 2},
       {.stride = {1, 1, 1}, .padding = {1, 0, 2, 0, 2, 0}}},
      // Of groups of eight channels and more, which GPUs take as large tiles: partial
      // ones, several steps of depth, chunks of 16 bytes and none, pieces, phases.
      {" in wide groups",
       {2, 24, 6, 7},
       {30, 8, 3, 3},
       {.padding = 1, .groups = 3}},
      {" of whole chunks", {3, 16, 8, 8}, {16, 16, 3, 3}, {.padding = 1}},
      {" of half chunks", {2, 12, 4, 5}, {8, 12, 1, 3}, {.padding = {0, 1}}},
      {" of several pieces", {2, 9, 16, 20}, {12, 9, 3, 3}, {.padding = 1}},
      {" wide with strides",
       {2, 20, 9, 7},
       {18, 10, 3, 3},
       {.stride = 2, .padding = {1, 1, 0, 1}, .groups = 2}},
      {" wide with dilation and strides",
       {1, 9, 9, 8},
       {8, 9, 3, 3},
       {.stride = {3, 2}, .padding = {2, 0, 1, 2}, .dilation = {2, 3}}},
      {" wide with taps beyond the image",
       {2, 8, 4, 5},
       {9, 8, 3, 3},
       {.padding = 6, .dilation = 6}},
      {" wide by one element with strides",
       {2, 16, 7, 6},
       {24, 16, 1, 1},
       {.stride = 2}},
      {" wide by one element in groups",
       {2, 16, 5, 4},
       {24, 8, 1, 1},
       {.groups = 2}},
      {" wide in three dimensions",
       {1, 8, 4, 5, 6},
       {10, 8, 2, 3, 2},
       {.stride = {2, 1, 2}, .padding = {1, 0, 1, 0, 1, 1}}},
      // More taps than GPUs have bits for.
      {" of many taps", {2, 8, 40}, {9, 8, 31}, {.padding = {2, 3}}},
      {" of many taps with strides",
       {1, 9, 50},
       {8, 9, 33},
       {.stride = 2, .padding = {2, 3}}},
  };
  return kCases;
}

Shape ResultOf(const Case& c) {
  GraphBuilder g("result");
  return Conv(g.Input("x", DType::kF32, c.x), g.Input("w", DType::kF32, c.w),
              c.options)
      .shape();
}

Axes Spatial(const Shape& shape) {
  return Axes(shape.begin() + 2, shape.end());
}

}  // namespace

void AddConvolutions(OpCaseTable& t) {
  const auto add = [&](OpKind op, const std::string& variant, const Shape& a,
                       const Shape& b, auto build) {
    t.Add(op, variant, {t.Real("a", a), t.Real("b", b)},
          [build](GraphBuilder&, In in) { return Out{build(in[0], in[1])}; });
  };
  for (const Case& c : Cases()) {
    const Shape y = ResultOf(c);
    const ConvOptions options = c.options;
    add(OpKind::kConv, c.variant, c.x, c.w,
        [options](Value x, Value w) { return Conv(x, w, options); });
    const ConvTransposeOptions transposed = {.stride = options.stride,
                                             .padding = options.padding,
                                             .dilation = options.dilation,
                                             .groups = options.groups,
                                             .size = Spatial(c.x)};
    add(OpKind::kConvTranspose, c.variant, y, c.w,
        [transposed](Value x, Value w) {
          return ConvTranspose(x, w, transposed);
        });
    const Axes kernel = Spatial(c.w);
    add(OpKind::kConvWeightGrad, c.variant, c.x, y,
        [options, kernel](Value x, Value dy) {
          return ConvWeightGrad(x, dy, kernel, options);
        });
  }
  add(OpKind::kConv, " of views", {5, 2, 4, 3}, {3, 2, 2, 7},
      [](Value x, Value w) {  // (2, 4, 5, 3) by (2, 2, 3, 2), both permuted
        return Conv(
            Permute(x, {1, 2, 0, 3}),
            Reshape(Permute(Slice(w, 3, 1, 5), {1, 3, 0, 2}), {2, 4, 3, 2}),
            {.padding = {1, 0}});
      });
  add(OpKind::kConvTranspose, " with output padding", {2, 3, 4, 3},
      {3, 2, 3, 2}, [](Value x, Value w) {
        return ConvTranspose(
            x, w, {.stride = 2, .padding = 1, .output_padding = {1, 0}});
      });
  add(OpKind::kConvTranspose, " of views", {4, 2, 5}, {2, 3, 8},
      [](Value x, Value w) {
        return ConvTranspose(Permute(x, {1, 0, 2}),
                             Reshape(Slice(w, 2, 0, 8, 2), {4, 3, 2}),
                             {.stride = 2});
      });
  add(OpKind::kConvWeightGrad, " of views", {1, 4, 7, 5}, {6, 2, 5, 1},
      [](Value x, Value dy) {  // of (2, 4, 7, 5), (2, 6, 5, 3)
        return ConvWeightGrad(
            BroadcastTo(x, {2, 4, 7, 5}),
            BroadcastTo(Permute(dy, {1, 0, 2, 3}), {2, 6, 5, 3}), {3, 3},
            {.groups = 2});
      });
}

// --- Pooling --------------------------------------------------------------------------

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

// --- Resize ---------------------------------------------------------------------------

void AddResize(OpCaseTable& t) {
  struct ResizeCase {
    const char* variant;
    Shape x, y;
  };
  const ResizeCase cases[] = {
      {" of a row to twice", {1, 2, 5}, {1, 2, 10}},
      {" of images", {2, 2, 3, 5}, {2, 2, 7, 4}},
      {" of images to half", {1, 2, 6, 8}, {1, 2, 3, 4}},
      {" of volumes", {1, 2, 2, 3, 4}, {1, 2, 5, 2, 4}},
      {" of one element", {1, 1, 1, 1}, {1, 1, 3, 1}},
      {" to one element", {1, 1, 4, 3}, {1, 1, 1, 1}},
  };
  struct Way {
    const char* name;
    ResizeMode mode;
    bool align_corners;
  };
  const Way ways[] = {
      {", nearest", ResizeMode::kNearest, false},
      {", linear", ResizeMode::kLinear, false},
      {", linear, corners aligned", ResizeMode::kLinear, true},
  };
  for (const ResizeCase& c : cases) {
    for (const Way& way : ways) {
      const std::string variant = std::string(c.variant) + way.name;
      t.Add(OpKind::kResize, variant, {t.Real("x", c.x)},
            [c, way](GraphBuilder&, In in) {
              return Out{Resize(in[0], Axes(c.y.begin() + 2, c.y.end()),
                                way.mode, way.align_corners)};
            });
      t.Add(
          OpKind::kResizeGrad, variant, {t.Real("dy", c.y)},
          [c, way](GraphBuilder&, In in) {
            return Out{Apply(OpKind::kResizeGrad, {in[0]},
                             {{"shape", Axes(c.x.begin(), c.x.end())},
                              {"mode", static_cast<int64_t>(way.mode)},
                              {"align_corners", int64_t{way.align_corners}}})};
          });
    }
  }
  t.Add(OpKind::kResize, " of a view", {t.Real("x", {1, 3, 4, 2})},
        [](GraphBuilder&, In in) {
          return Out{Resize(Permute(in[0], {0, 3, 1, 2}), {5, 6})};
        });
}

// --- Pad ------------------------------------------------------------------------------

void AddPad(OpCaseTable& t) {
  struct PadCase {
    const char* variant;
    Shape x, y;
    Axes before, after;
  };
  const PadCase cases[] = {
      {" of a row", {5}, {10}, {2}, {3}},
      {" of images", {2, 3, 4, 5}, {2, 3, 7, 7}, {0, 0, 1, 2}, {0, 0, 2, 0}},
      {" of all axes", {2, 3, 4}, {4, 4, 9}, {1, 0, 3}, {1, 1, 2}},
      {" of rows alone", {4, 3}, {7, 3}, {3, 0}, {0, 0}},
  };
  const char* const names[] = {"", ", reflected", ", of the edge"};
  for (const PadCase& p : cases) {
    for (const int64_t mode : {0, 1, 2}) {
      const std::string variant = std::string(p.variant) + names[mode];
      t.Add(OpKind::kPad, variant, {t.Real("x", p.x)},
            [p, mode](GraphBuilder&, In in) {
              return Out{Pad(in[0], p.before, p.after,
                             static_cast<PadMode>(mode), mode == 0 ? 1.5 : 0)};
            });
      if (mode == 0) continue;
      t.Add(OpKind::kPadGrad, variant, {t.Real("dy", p.y)},
            [p, mode](GraphBuilder&, In in) {
              return Out{Apply(
                  OpKind::kPadGrad, {in[0]},
                  {{"before", p.before}, {"after", p.after}, {"mode", mode}})};
            });
    }
  }
  t.Add(OpKind::kPad, " of a view", {t.Real("x", {3, 4})},
        [](GraphBuilder&, In in) {
          return Out{Pad(Transpose(in[0]), {1, 0}, {0, 1}, PadMode::kReflect)};
        });
  t.Add(OpKind::kPad, " of one element, of the edge", {t.Real("x", {1, 1})},
        [](GraphBuilder&, In in) {
          return Out{Pad(in[0], {2, 1}, {1, 2}, PadMode::kEdge)};
        });
}

}  // namespace stowage::testing
