// Rows of the op test table: quantized_matmul, quantized_gather, linear_cross_entropy.

#include <string>
#include <vector>

#include "ir/weight_type.h"
#include "tests/support/op_case_table.h"

namespace stowage::testing {
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
