// The convolution ops' types, their defaults, and every mistake that they name.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/windows.h"
#include "tests/ir/op_rows.h"

namespace stowage {
namespace {

std::string TypeOfConv(const Shape& x, const Shape& w,
                       const ConvOptions& options) {
  GraphBuilder g("types");
  const Value y = Conv(F32(g, "x", x), F32(g, "w", w), options);
  REQUIRE(y.ok());
  return y.type().ToString();
}

TEST_CASE("a convolution's size follows from the places its kernel has") {
  // (in + padding - dilation * (kernel - 1) - 1) / stride + 1, rounded down.
  CHECK(TypeOfConv({2, 3, 9}, {4, 3, 4}, {}) == "f32(2, 4, 6)");
  CHECK(TypeOfConv({64, 3, 224, 224}, {64, 3, 7, 7},
                   {.stride = 2, .padding = 3}) == "f32(64, 64, 112, 112)");
  CHECK(TypeOfConv({1, 8, 10, 10}, {8, 1, 3, 3},
                   {.stride = {2, 1}, .padding = {0, 1}, .groups = 8}) ==
        "f32(1, 8, 4, 10)");
  CHECK(TypeOfConv({1, 2, 10, 12}, {4, 2, 3, 3},
                   {.padding = {0, 1, 2, 3}, .dilation = {2, 4}}) ==
        "f32(1, 4, 8, 8)");
  CHECK(TypeOfConv({1, 2, 4, 5, 6}, {4, 2, 2, 3, 4}, {}) ==
        "f32(1, 4, 3, 3, 3)");
  CHECK(TypeOfConv({1, 1, 3}, {1, 1, 5}, {.padding = 1}) == "f32(1, 1, 1)");
}

TEST_CASE("a transposed convolution has the smallest size, and what is asked") {
  const auto type = [](const Shape& x, const Shape& w,
                       const ConvTransposeOptions& options) {
    GraphBuilder g("types");
    const Value y = ConvTranspose(F32(g, "x", x), F32(g, "w", w), options);
    REQUIRE(y.ok());
    return y.type().ToString();
  };
  // (in - 1) * stride - padding + dilation * (kernel - 1) + 1 + output_padding.
  CHECK(type({2, 8, 16, 16}, {8, 4, 2, 2}, {.stride = 2}) ==
        "f32(2, 4, 32, 32)");
  CHECK(type({2, 8, 5}, {8, 4, 3},
             {.stride = 3, .padding = {0, 1}, .dilation = 2}) ==
        "f32(2, 4, 16)");
  CHECK(type({2, 8, 5, 5}, {8, 4, 3, 3},
             {.stride = 2, .padding = 1, .output_padding = {1, 0}}) ==
        "f32(2, 4, 10, 9)");
  CHECK(type({2, 8, 5, 5}, {8, 2, 3, 3},
             {.stride = 2, .padding = 1, .groups = 4, .size = {9, 10}}) ==
        "f32(2, 8, 9, 10)");
}

TEST_CASE("a weight gradient has the filters' type") {
  GraphBuilder g("types");
  const Value dw = ConvWeightGrad(g.Input("x", DType::kBF16, {2, 6, 8, 8}),
                                  g.Input("dy", DType::kBF16, {2, 4, 3, 4}),
                                  {3, 2}, {.stride = {2, 2}, .groups = 2});
  REQUIRE(dw.ok());
  CHECK(dw.type().ToString() == "bf16(4, 3, 3, 2)");
}

TEST_CASE("a multiply-add is two operations, in all three forms") {
  GraphBuilder g("flops");
  const Value x = F32(g, "x", {2, 6, 9, 9});
  const Value w = F32(g, "w", {4, 3, 3, 3});
  const Value y = Conv(x, w, {.stride = 2, .groups = 2});
  ConvTranspose(y, w, {.stride = 2, .groups = 2});
  ConvWeightGrad(x, y, {3, 3}, {.stride = 2, .groups = 2});
  for (const Node& node : g.graph().nodes()) {
    OpArgsStorage storage;
    const OpArgs args = MakeOpArgs(g.graph(), node, &storage);
    const std::vector<TensorType> results = {
        g.graph().value(node.results[0]).type};
    // 2 images of 4 x 4 elements of 4 filters, 3 channels of 3 x 3 each.
    CHECK(GetOpDef(node.op).flops(args, results) == 2.0 * 2 * 4 * 16 * 27);
  }
}

TEST_CASE("a geometry has three dimensions, the first of size 1") {
  const Attrs attrs = {{"stride", Axes{3}},
                       {"padding", Axes{4, 5}},
                       {"dilation", Axes{2}},
                       {"groups", int64_t{2}}};
  const ConvGeometry g({7, 6, 11}, {8, 3, 2}, {7, 8, 6}, attrs);
  CHECK(g.images == 7);
  CHECK(g.groups == 2);
  CHECK(g.channels == 3);
  CHECK(g.filters == 4);
  CHECK(g.dims[1].in == 1);
  CHECK(g.dims[1].before == 0);
  CHECK(g.dims[2].stride == 3);
  CHECK(g.dims[2].dilation == 2);
  CHECK(g.dims[2].before == 4);
  CHECK(g.in_size() == 11);
  CHECK(g.kernel_size() == 2);
  CHECK(g.out_size() == 6);
}

TEST_CASE("every mistake is named with its values") {
  const std::vector<ErrorRow> rows = {
      {[](GraphBuilder& g) {
         Conv(g.Input("x", DType::kI32, {2, 3, 8}), F32(g, "w", {4, 3, 3}));
       },
       "[conv] x \"x\" is i32(2, 3, 8); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 3, 8}), g.Input("w", DType::kF64, {4, 3, 3}));
       },
       "[conv] element types differ: x \"x\" is f32(2, 3, 8), w \"w\" is "
       "f64(4, 3, 3); expected one element type: cast one of them"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {3, 8}), F32(g, "w", {4, 3}));
       },
       "[conv] x \"x\" is f32(3, 8); expected (N, C, ...) with 1 to 3 spatial "
       "dimensions"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {1, 3, 8, 8, 8, 8}), F32(g, "w", {4, 3, 1, 1, 1, 1}));
       },
       "[conv] x \"x\" is f32(1, 3, 8, 8, 8, 8); expected (N, C, ...) with 1 "
       "to "
       "3 spatial dimensions"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 3, 8, 8}), F32(g, "w", {4, 3, 3}));
       },
       "[conv] w \"w\" is f32(4, 3, 3); expected rank 4, since x \"x\" is "
       "f32(2, 3, 8, 8)"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 6, 8}), F32(g, "w", {4, 3, 3}));
       },
       "[conv] w \"w\" is f32(4, 3, 3); expected (O, 6, ...), since x \"x\" is "
       "f32(2, 6, 8) and groups is 1"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 6, 8}), F32(g, "w", {4, 3, 3}), {.groups = 4});
       },
       "[conv] dimension 1 does not divide by groups: x \"x\" is f32(2, 6, 8), "
       "groups is 4; expected a multiple of 4"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 6, 8}), F32(g, "w", {4, 2, 3}), {.groups = 3});
       },
       "[conv] dimension 0 does not divide by groups: w \"w\" is f32(4, 2, 3), "
       "groups is 3; expected a multiple of 3"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 6, 8}), F32(g, "w", {4, 3, 3}), {.groups = 0});
       },
       "[conv] groups is 0; expected at least 1"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 3, 8, 8}), F32(g, "w", {4, 3, 3, 3}),
              {.stride = {1, 0}});
       },
       "[conv] stride is (1, 0); expected 1 to 2147483647"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 3, 8, 8}), F32(g, "w", {4, 3, 3, 3}),
              {.stride = {1, 1, 1}});
       },
       "[conv] stride is (1, 1, 1); expected 2 numbers: one for each spatial "
       "dimension"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 3, 8}), F32(g, "w", {4, 3, 3}), {.padding = -1});
       },
       "[conv] padding is (-1, -1); expected 0 to 2147483647"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 3, 8, 8}), F32(g, "w", {4, 3, 3, 3}),
              {.padding = {1, 1, 1}});
       },
       "[conv] padding is (1, 1, 1); expected 4 numbers: before each spatial "
       "dimension, then after each"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 3, 8}), F32(g, "w", {4, 3, 3}),
              {.dilation = int64_t{1} << 31});
       },
       "[conv] dilation is (2147483648); expected 1 to 2147483647"},
      {[](GraphBuilder& g) {
         Conv(F32(g, "x", {2, 3, 9, 8}), F32(g, "w", {4, 3, 3, 5}),
              {.padding = {0, 0, 0, 1}, .dilation = {1, 3}});
       },
       "[conv] the kernel is larger than the padded image along dimension 3: "
       "a kernel of 5 with dilation 3 reaches over 13, an image of 8 with "
       "padding of 1 has 9; expected at least 13"},
      {[](GraphBuilder& g) {
         ConvTranspose(F32(g, "x", {2, 3, 8}), F32(g, "w", {4, 3, 3}));
       },
       "[conv_transpose] w \"w\" is f32(4, 3, 3); expected (3, ...), since x "
       "\"x\" is f32(2, 3, 8)"},
      {[](GraphBuilder& g) {
         ConvTranspose(F32(g, "x", {2, 3, 8}), F32(g, "w", {3, 1, 3}),
                       {.groups = 2});
       },
       "[conv_transpose] dimension 1 does not divide by groups: x \"x\" is "
       "f32(2, 3, 8), groups is 2; expected a multiple of 2"},
      {[](GraphBuilder& g) {
         ConvTranspose(F32(g, "x", {2, 3, 8}), F32(g, "w", {3, 1, 3}),
                       {.stride = 2, .output_padding = 2});
       },
       "[conv_transpose] size is (19): dimension 2 of it is convolved to 9; "
       "expected 8, since x \"x\" is f32(2, 3, 8), w \"w\" is f32(3, 1, 3), "
       "stride is (2), padding (0, 0), dilation (1)"},
      {[](GraphBuilder& g) {
         ConvTranspose(F32(g, "x", {2, 3, 8}), F32(g, "w", {3, 1, 3}),
                       {.stride = 2, .size = {16}});
       },
       "[conv_transpose] size is (16): dimension 2 of it is convolved to 7; "
       "expected 8, since x \"x\" is f32(2, 3, 8), w \"w\" is f32(3, 1, 3), "
       "stride is (2), padding (0, 0), dilation (1)"},
      {[](GraphBuilder& g) {
         ConvTranspose(F32(g, "x", {2, 3, 8}), F32(g, "w", {3, 1, 3}),
                       {.size = {10, 10}});
       },
       "[conv_transpose] size is (10, 10); expected 1 numbers: one for each "
       "spatial dimension"},
      {[](GraphBuilder& g) {
         ConvTranspose(F32(g, "x", {2, 3, 2}), F32(g, "w", {3, 1, 3}),
                       {.padding = 3});
       },
       "[conv_transpose] size is (-2); expected 1 to 2147483647"},
      {[](GraphBuilder& g) {
         ConvTranspose(F32(g, "x", {2, 3, 8}), F32(g, "w", {3, 1, 3}),
                       {.stride = 2, .output_padding = {1, 0}});
       },
       "[conv_transpose] output_padding has 2 numbers: x \"x\" is f32(2, 3, "
       "8); "
       "expected 1, one for each spatial dimension"},
      {[](GraphBuilder& g) {
         ConvTranspose(F32(g, "x", {2, 3, 8}), F32(g, "w", {3, 1, 3}),
                       {.stride = 2, .output_padding = 1, .size = {17}});
       },
       "[conv_transpose] size is given, and output_padding: x \"x\" is "
       "f32(2, 3, 8); expected one of the two"},
      {[](GraphBuilder& g) {
         ConvTranspose(F32(g, "x", {2, 3, 8}), F32(g, "w", {3, 1, 3}),
                       {.stride = INT64_MAX, .padding = INT64_MIN});
       },
       "[conv_transpose] stride is (9223372036854775807); expected 1 to "
       "2147483647"},
      {[](GraphBuilder& g) {
         ConvWeightGrad(F32(g, "x", {2, 3, 8}), F32(g, "dy", {2, 4, 5}), {3});
       },
       "[conv_weight_grad] dy \"dy\" is f32(2, 4, 5); expected f32(2, 4, 6), "
       "since x \"x\" is f32(2, 3, 8)"},
      {[](GraphBuilder& g) {
         ConvWeightGrad(F32(g, "x", {2, 4, 8}), F32(g, "dy", {2, 3, 6}), {3},
                        {.groups = 2});
       },
       "[conv_weight_grad] dimension 1 does not divide by groups: dy \"dy\" is "
       "f32(2, 3, 6), groups is 2; expected a multiple of 2"},
      {[](GraphBuilder& g) {
         ConvWeightGrad(F32(g, "x", {2, 3, 8}), F32(g, "dy", {2, 4, 6}), {0});
       },
       "[conv_weight_grad] kernel is (0); expected 1 to 2147483647"},
  };
  CheckRows(rows);
}

}  // namespace
}  // namespace stowage
