// Rows of the op test table: matmuls, alone, with epilogues and by quantized weights, and
// linear_cross_entropy.

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/weight_type.h"
#include "tests/support/op_case_table.h"

namespace stowage::testing {
namespace {

struct Flags {
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool addend = false;
  bool gelu_grad = false;
  bool a_sums = false;
  bool b_sums = false;
};

Out Product(GraphBuilder& g, In operands, const Flags& flags) {
  return g.Emit(OpKind::kEpilogueMatMul, operands,
                {{"transpose_a", int64_t{flags.transpose_a}},
                 {"transpose_b", int64_t{flags.transpose_b}},
                 {"bias", int64_t{flags.bias}},
                 {"addend", int64_t{flags.addend}},
                 {"gelu_grad", int64_t{flags.gelu_grad}},
                 {"a_sums", int64_t{flags.a_sums}},
                 {"b_sums", int64_t{flags.b_sums}}});
}

Value Ends(GraphBuilder& g, DType dtype, const std::vector<int64_t>& ends) {
  const Shape shape = {std::ssize(ends)};
  if (dtype == DType::kI64) {
    return Constant(g, dtype, shape, std::as_bytes(std::span(ends)));
  }
  const std::vector<int32_t> narrow(ends.begin(), ends.end());
  return Constant(g, dtype, shape, std::as_bytes(std::span(narrow)));
}

void AddGroupedMatMul(OpCaseTable& t) {
  struct Case {
    std::string variant;
    std::vector<int64_t> ends;
    int64_t rows, k, n;
    DType dtype = DType::kI64;
  };
  const Case cases[] = {
      {"", {2, 5}, 5, 3, 4},
      {" of one group", {6}, 6, 2, 3, DType::kI32},
      {" with empty groups", {0, 3, 3, 4, 4}, 4, 3, 2, DType::kI32},
      {" with rows in none", {1, 3}, 7, 2, 3},
      {" in no group at all", {0, 0}, 3, 2, 2},
      {" larger than a tile", {3, 80, 80, 150}, 160, 35, 67},
  };
  for (const Case& c : cases) {
    const int64_t groups = std::ssize(c.ends);
    for (const bool transposed : {false, true}) {
      const Shape w =
          transposed ? Shape{groups, c.n, c.k} : Shape{groups, c.k, c.n};
      t.Add(OpKind::kGroupedMatMul,
            StrCat(c.variant, transposed ? " transposed" : ""),
            {t.Real("x", {c.rows, c.k}), t.Real("w", w)},
            [c, transposed](GraphBuilder& g, In in) {
              return Out{GroupedMatMul(in[0], in[1], Ends(g, c.dtype, c.ends),
                                       transposed)};
            });
    }
    t.Add(OpKind::kGroupedMatMulWeightGrad, c.variant,
          {t.Real("x", {c.rows, c.k}), t.Real("dy", {c.rows, c.n})},
          [c](GraphBuilder& g, In in) {
            return Out{GroupedMatMulWeightGrad(in[0], in[1],
                                               Ends(g, c.dtype, c.ends))};
          });
  }
}

}  // namespace

void AddMatMul(OpCaseTable& t) {
  AddGroupedMatMul(t);
  const auto add = [&t](const std::string& variant, const Shape& a,
                        const Shape& b, bool transpose_a, bool transpose_b) {
    t.Add(OpKind::kMatMul, variant, {t.Real("a", a), t.Real("b", b)},
          [=](GraphBuilder&, In in) {
            return Out{MatMul(in[0], in[1], transpose_a, transpose_b)};
          });
  };
  add("", {3, 4}, {4, 5}, false, false);
  add(" with a transposed", {4, 3}, {4, 5}, true, false);
  add(" with b transposed", {3, 4}, {5, 4}, false, true);
  add(" with both transposed", {4, 3}, {5, 4}, true, true);
  add(" of a row and a column", {1, 7}, {7, 1}, false, false);
  add(" larger than a tile", {37, 65}, {65, 33}, false, false);
  add(" of many by one", {2, 3, 4}, {4, 5}, false, false);
  add(" of many by one transposed", {2, 2, 3, 4}, {5, 4}, false, true);
  add(" of many transposed by one", {2, 4, 3}, {4, 5}, true, false);
  add(" of many transposed by one transposed", {2, 4, 3}, {5, 4}, true, true);
  add(" of many by many", {2, 3, 4}, {2, 4, 5}, false, false);
  add(" of many by many, a transposed", {2, 4, 3}, {2, 4, 5}, true, false);
  add(" of many by many, b transposed", {2, 3, 4}, {2, 5, 4}, false, true);
  add(" of many by many, both transposed", {2, 4, 3}, {2, 5, 4}, true, true);
  add(" with broadcasting", {3, 1, 2, 4}, {2, 4, 5}, false, false);
  add(" of one by many", {3, 4}, {2, 4, 5}, false, false);
  t.Add(OpKind::kMatMul, " of views",
        {t.Real("a", {4, 3}), t.Real("b", {9, 5})}, [](GraphBuilder&, In in) {
          return Out{MatMul(Transpose(in[0]), Slice(in[1], 0, 3, 7))};
        });
  t.Add(OpKind::kMatMul, " of heads", {t.Real("x", {2, 5, 3, 4})},
        [](GraphBuilder&, In in) {
          const Value heads = Permute(in[0], {0, 2, 1, 3});
          return Out{MatMul(heads, heads, false, true)};
        });

  t.Add(OpKind::kEpilogueMatMul, ", bias",
        {t.Real("a", {5, 7}), t.Real("b", {7, 53}), t.Real("bias", {53})},
        [](GraphBuilder& g, In in) { return Product(g, in, {.bias = true}); });
  t.Add(OpKind::kEpilogueMatMul, ", addend, of sequences",
        {t.Real("a", {2, 19, 8}), t.Real("b", {50, 8}),
         t.Real("addend", {2, 19, 50})},
        [](GraphBuilder& g, In in) {
          return Product(g, in, {.transpose_b = true, .addend = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", bias and addend, of a long sum",
        {t.Real("a", {9, 600}, -0.1, 0.1), t.Real("b", {600, 17}),
         t.Real("bias", {17}), t.Real("addend", {9, 17})},
        [](GraphBuilder& g, In in) {
          return Product(g, in, {.bias = true, .addend = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", gradient of gelu",
        {t.Real("a", {21, 530}, -0.1, 0.1), t.Real("b", {49, 530}),
         t.Real("x", {21, 49}, -3, 3)},
        [](GraphBuilder& g, In in) {
          return Product(g, in, {.transpose_b = true, .gelu_grad = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", bias and addend, of many by many",
        {t.Real("a", {3, 1, 4, 10}), t.Real("b", {3, 2, 4, 18}),
         t.Real("bias", {18}), t.Real("addend", {3, 2, 10, 18})},
        [](GraphBuilder& g, In in) {
          const Value heads = BroadcastTo(in[0], {3, 2, 4, 10});
          return Product(g, Out{heads, in[1], in[2], in[3]},
                         {.transpose_a = true, .bias = true, .addend = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", all of it",
        {t.Real("a", {6, 7}), t.Real("b", {7, 9}), t.Real("bias", {9}),
         t.Real("addend", {6, 9}), t.Real("x", {6, 9}, -3, 3)},
        [](GraphBuilder& g, In in) {
          return Product(g, in,
                         {.bias = true, .addend = true, .gelu_grad = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", gradient of gelu, of views",
        {t.Real("a", {4, 3}), t.Real("b", {9, 5}), t.Real("x", {3, 5}, -3, 3)},
        [](GraphBuilder& g, In in) {
          return Product(g, Out{Transpose(in[0]), Slice(in[1], 0, 3, 7), in[2]},
                         {.gelu_grad = true});
        });

  // A weight's gradient, of either layout, and its bias's.
  t.Add(OpKind::kEpilogueMatMul, ", sums of b",
        {t.Real("x", {37, 12}), t.Real("dy", {37, 65})},
        [](GraphBuilder& g, In in) {
          return Product(g, in, {.transpose_a = true, .b_sums = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", sums of a",
        {t.Real("dy", {37, 65}), t.Real("x", {37, 12})},
        [](GraphBuilder& g, In in) {
          return Product(g, in, {.transpose_a = true, .a_sums = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", sums of a, of rows",
        {t.Real("a", {9, 41}), t.Real("b", {6, 41})},
        [](GraphBuilder& g, In in) {
          return Product(g, in, {.transpose_b = true, .a_sums = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", sums of b, of rows",
        {t.Real("a", {9, 41}), t.Real("b", {6, 41})},
        [](GraphBuilder& g, In in) {
          return Product(g, in, {.transpose_b = true, .b_sums = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", sums of b, of long columns",
        {t.Real("x", {700, 3}, -0.1, 0.1), t.Real("dy", {700, 16}, -0.1, 0.1)},
        [](GraphBuilder& g, In in) {
          return Product(g, in, {.transpose_a = true, .b_sums = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", sums of b, of views",
        {t.Real("x", {5, 12}), t.Real("dy", {2, 3, 8})},
        [](GraphBuilder& g, In in) {
          // Of rows that lie apart, and of a reshape.
          return Product(
              g, Out{Slice(Transpose(in[0]), 0, 3, 9), Reshape(in[1], {6, 8})},
              {.transpose_a = true, .b_sums = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", sums of a, which is copied to be summed",
        {t.Real("dy", {4, 7}), t.Real("x", {4, 5})},
        [](GraphBuilder& g, In in) {
          return Product(g, Out{Transpose(in[0]), in[1]}, {.a_sums = true});
        });
  t.Add(OpKind::kEpilogueMatMul, ", sums of b, of one row",
        {t.Real("x", {1, 4}), t.Real("dy", {1, 5})},
        [](GraphBuilder& g, In in) {
          return Product(g, in, {.transpose_a = true, .b_sums = true});
        });
}

// --- Quantized weights, linear_cross_entropy ------------------------------------------

namespace {

// Bytes below 0x38: every f16 among them is below 1/2, and every f32 and bf16 small. The
// scale of MXFP4 is an exponent, of 2^-15 to 1.
LeafSpec Blocks(const char* name, WeightType type, int64_t rows,
                int64_t columns) {
  if (type == WeightType::kMXFP4) {
    return {name,     DType::kU8, {rows, BytesOf(type, columns)},
            kInteger, 0x70,       0x80};
  }
  return {name, DType::kU8, {rows, BytesOf(type, columns)}, kInteger, 0, 0x38};
}

void AddQuantizedProducts(OpCaseTable& t) {
  struct Product {
    std::string variant;
    WeightType type;
    int64_t rows, columns;
    Shape x;
    bool transposed;
  };
  const std::vector<Product> products = {
      {"", WeightType::kQ4_1, 5, 64, {3, 64}, true},
      {" of sequences", WeightType::kQ8_0, 37, 32, {2, 3, 32}, true},
      {" as it lies", WeightType::kQ4_0, 7, 96, {2, 7}, false},
      {" as it lies, of a row", WeightType::kQ5_1, 3, 32, {3}, false},
      {" of Q5_0", WeightType::kQ5_0, 3, 32, {4, 32}, true},
      {" of Q4_K", WeightType::kQ4_K, 3, 256, {2, 256}, true},
      {" of Q5_K, as it lies", WeightType::kQ5_K, 2, 256, {3, 2}, false},
      {" of Q6_K", WeightType::kQ6_K, 2, 256, {2, 256}, true},
      {" of Q2_K", WeightType::kQ2_K, 2, 256, {2, 256}, true},
      {" of Q3_K, as it lies", WeightType::kQ3_K, 2, 256, {3, 2}, false},
      {" of IQ4_NL", WeightType::kIQ4_NL, 3, 64, {2, 64}, true},
      {" of IQ4_XS", WeightType::kIQ4_XS, 2, 256, {2, 256}, true},
      {" of TQ1_0", WeightType::kTQ1_0, 2, 256, {2, 256}, true},
      {" of TQ2_0", WeightType::kTQ2_0, 2, 256, {2, 256}, true},
      {" of MXFP4", WeightType::kMXFP4, 3, 64, {2, 64}, true},
      {" of F16", WeightType::kF16, 5, 7, {3, 7}, true},
      {" of BF16, as it lies", WeightType::kBF16, 5, 7, {3, 5}, false},
      {" of F32", WeightType::kF32, 5, 7, {3, 7}, true},
  };
  for (const Product& p : products) {
    t.Add(OpKind::kQuantizedMatMul, p.variant,
          {t.Real("x", p.x), Blocks("w", p.type, p.rows, p.columns)},
          [p](GraphBuilder&, In in) {
            return Out{QuantizedMatMul(in[0], in[1], p.type, p.transposed)};
          });
  }
  for (const WeightType type : {WeightType::kQ4_1, WeightType::kQ6_K}) {
    const BlockFormat& format = FormatOf(type);
    OpCase& row =
        t.Add(OpKind::kQuantizedGather, " of " + std::string(format.name),
              {Blocks("table", type, 5, 2 * format.numbers),
               t.Index("indices", {2, 3}, 5)},
              [type](GraphBuilder&, In in) {
                return Out{QuantizedGather(in[0], in[1], type)};
              });
    row.differentiable = 0;
    row.tolerance = 0;
  }
}

void AddLinearCrossEntropies(OpCaseTable& t) {
  const auto build = [](int64_t chunk) {
    return [chunk](GraphBuilder& g, In in) {
      std::vector<Value> results =
          g.Emit(OpKind::kLinearCrossEntropy, in,
                 {{"chunk", chunk}, {"blocks", kNoBlocks}});
      results.resize(2);  // the mean, the losses of the rows
      return results;
    };
  };
  // Three chunks, the last one short.
  const std::vector<LeafSpec> leaves = {t.Real("x", {8, 5}, -2, 2),
                                        t.Real("w", {7, 5}),
                                        t.Index("labels", {8}, 7)};
  const std::vector<LeafSpec> sequences = {
      t.Real("x", {2, 3, 4}, -2, 2), t.Real("w", {37, 4}),
      t.Index("labels", {2, 3}, 37, DType::kI64)};
  LeafSpec weights = t.Statistic("weights", {8});
  weights.low = 0;
  const std::vector<LeafSpec> in_blocks = {
      t.Real("x", {8, 32}, -2, 2), Blocks("w", WeightType::kQ4_1, 7, 32),
      t.Index("labels", {8}, 7)};
  t.Add(OpKind::kLinearCrossEntropy, "", leaves, build(3)).differentiable = 2;
  t.Add(OpKind::kLinearCrossEntropy, " of sequences, by i64", sequences,
        build(4))
      .differentiable = 2;
  t.Add(OpKind::kLinearCrossEntropy, " in one chunk", leaves, build(100));
  // Of integers, since weights have no gradient.
  std::vector<LeafSpec> weighted = leaves;
  weighted.push_back(t.Index("weights", {8}, 3));
  t.Add(OpKind::kLinearCrossEntropy, " with weights", weighted,
        [type = weights.dtype](GraphBuilder&, In in) {
          return Out{LinearCrossEntropy(in[0], in[1], in[2], 3,
                                        {.weights = Cast(in[3], type)})};
        });
  const LinearCrossEntropyOptions capped = {.softcap = 0.75};
  t.Add(OpKind::kLinearCrossEntropy, " of capped logits", leaves,
        [=](GraphBuilder&, In in) {
          return Out{LinearCrossEntropy(in[0], in[1], in[2], 3, capped),
                     LinearCrossEntropyRows(in[0], in[1], in[2], 3, capped)};
        });
  t.Add(OpKind::kLinearCrossEntropy, " in blocks", in_blocks,
        [](GraphBuilder&, In in) {
          return Out{LinearCrossEntropy(in[0], in[1], in[2], 3,
                                        {.blocks = WeightType::kQ4_1})};
        });
  t.Add(OpKind::kLinearCrossEntropy, " row by row, in blocks", in_blocks,
        [](GraphBuilder&, In in) {
          return Out{LinearCrossEntropyRows(in[0], in[1], in[2], 3,
                                            {.blocks = WeightType::kQ4_1})};
        });

  const auto build_grad = [](int64_t chunk, LinearCrossEntropyOptions options,
                             bool wants_dw) {
    return [=](GraphBuilder&, In in) {
      LinearCrossEntropyOptions of_row = options;
      if (in.size() > 4) of_row.weights = in[4];
      const LinearCrossEntropyGrads grads = LinearCrossEntropyGrad(
          in[0], in[1], in[2], in[3], chunk, of_row, wants_dw);
      Out results = {grads.loss, grads.dx};
      if (wants_dw) results.push_back(grads.dw);
      return results;
    };
  };
  const auto with_dloss = [&](std::vector<LeafSpec> specs) {
    specs.push_back(t.Statistic("dloss", {}));
    return specs;
  };
  t.Add(OpKind::kLinearCrossEntropyGrad, "", with_dloss(leaves),
        build_grad(3, {}, true));
  t.Add(OpKind::kLinearCrossEntropyGrad, " row by row", with_dloss(leaves),
        build_grad(1, {}, true));
  t.Add(OpKind::kLinearCrossEntropyGrad, " of sequences", with_dloss(sequences),
        build_grad(3, {}, true));
  t.Add(OpKind::kLinearCrossEntropyGrad, " of sequences row by row",
        with_dloss(sequences), build_grad(1, {}, true));
  t.Add(OpKind::kLinearCrossEntropyGrad, " of a frozen w", with_dloss(leaves),
        build_grad(3, {}, false));
  std::vector<LeafSpec> of_rows = with_dloss(leaves);
  of_rows.push_back(weights);
  t.Add(OpKind::kLinearCrossEntropyGrad, " with weights", of_rows,
        build_grad(3, {}, true));
  t.Add(OpKind::kLinearCrossEntropyGrad, " of capped logits",
        with_dloss(sequences), build_grad(4, {.softcap = 0.75}, true));
  t.Add(OpKind::kLinearCrossEntropyGrad, " in blocks", with_dloss(in_blocks),
        build_grad(3, {.blocks = WeightType::kQ4_1}, false));
}

}  // namespace

void AddQuantized(OpCaseTable& t) {
  AddQuantizedProducts(t);
  AddLinearCrossEntropies(t);
}

}  // namespace stowage::testing
