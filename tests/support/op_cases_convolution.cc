// The convolution ops' rows of the op test table: every convolution in its three
// forms.

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

}  // namespace stowage::testing
