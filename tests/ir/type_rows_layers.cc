#include <cstdint>
#include <span>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/ir/op_rows.h"

namespace stowage {
namespace {

using Values = std::vector<Value>;

Values Only(Value value) { return {value}; }

// Every result of the last node.
Values Last(GraphBuilder& g) {
  Values values;
  for (const ValueId id : g.graph().nodes().back().results) {
    values.push_back(*g.Find(g.graph().value(id).name));
  }
  return values;
}

}  // namespace

const std::vector<TypeRow>& LayerTypeRows() {
  static const std::vector<TypeRow> kRows = {
      {"matmul of matrices, all four ways",
       [](GraphBuilder& g) {
         const Value a = F32(g, "a", {2, 3});
         const Value at = F32(g, "at", {3, 2});
         const Value b = F32(g, "b", {3, 5});
         const Value bt = F32(g, "bt", {5, 3});
         return Values{MatMul(a, b), MatMul(at, b, true),
                       MatMul(a, bt, false, true), MatMul(at, bt, true, true)};
       },
       std::vector<std::string>(4, "f32(2, 5)")},
      {"matmul of a batch with one matrix",
       [](GraphBuilder& g) {
         const Value a = F32(g, "a", {7, 6, 2, 3});
         return Values{MatMul(a, F32(g, "b", {3, 5})),
                       MatMul(a, F32(g, "bt", {5, 3}), false, true)};
       },
       std::vector<std::string>(2, "f32(7, 6, 2, 5)")},
      {"matmul of batches, and broadcast ones",
       [](GraphBuilder& g) {
         const Value a = F32(g, "a", {7, 6, 2, 3});
         return Values{MatMul(a, F32(g, "b", {7, 6, 3, 5})),
                       MatMul(a, F32(g, "c", {7, 1, 3, 5})),
                       MatMul(a, F32(g, "d", {6, 3, 5})),
                       MatMul(F32(g, "e", {2, 3}), F32(g, "f", {7, 6, 3, 5}))};
       },
       std::vector<std::string>(4, "f32(7, 6, 2, 5)")},
      {"matmul with epilogues",
       [](GraphBuilder& g) {
         const Value a = BF16(g, "a", {2, 4, 3});
         const Value y = BF16(g, "y", {2, 4, 5});
         const auto flags = [](int64_t bias, int64_t addend, int64_t gelu) {
           return Attrs{{"transpose_a", int64_t{0}},
                        {"transpose_b", int64_t{1}},
                        {"bias", bias},
                        {"addend", addend},
                        {"gelu_grad", gelu},
                        {"a_sums", int64_t{0}},
                        {"b_sums", int64_t{0}}};
         };
         const Value b = BF16(g, "b", {5, 3});
         const Value bias = BF16(g, "bias", {5});
         const auto product = [&](const Values& operands, const Attrs& attrs) {
           return g.Emit(OpKind::kEpilogueMatMul, operands, attrs)[0];
         };
         return Values{product({a, b, bias}, flags(1, 0, 0)),
                       product({a, b, y}, flags(0, 1, 0)),
                       product({a, b, bias, y}, flags(1, 1, 0)),
                       product({a, b, y}, flags(0, 0, 1))};
       },
       std::vector<std::string>(4, "bf16(2, 4, 5)")},
      {"matmul and the sums of an operand, all four ways",
       [](GraphBuilder& g) {
         const Value a = BF16(g, "a", {4, 3});
         const Value b = BF16(g, "b", {4, 5});
         const Value at = BF16(g, "at", {3, 4});
         const Value bt = BF16(g, "bt", {5, 4});
         Values values;
         const auto add = [&](Value x, Value y, int64_t transposed,
                              int64_t a_sums) {
           for (const Value result :
                g.Emit(OpKind::kEpilogueMatMul, Values{x, y},
                       {{"transpose_a", int64_t{1 - transposed}},
                        {"transpose_b", transposed},
                        {"bias", int64_t{0}},
                        {"addend", int64_t{0}},
                        {"gelu_grad", int64_t{0}},
                        {"a_sums", a_sums},
                        {"b_sums", 1 - a_sums}})) {
             values.push_back(result);
           }
         };
         add(a, b, 0, 1);
         add(a, b, 0, 0);
         add(at, bt, 1, 1);
         add(at, bt, 1, 0);
         return values;
       },
       {"bf16(3, 5)", "bf16(3)", "bf16(3, 5)", "bf16(5)", "bf16(3, 5)",
        "bf16(3)", "bf16(3, 5)", "bf16(5)"}},
      {"softmax and log_softmax along any axis",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2, 3, 4});
         return Values{Softmax(x), Softmax(x, 0), LogSoftmax(x),
                       LogSoftmax(x, -2)};
       },
       std::vector<std::string>(4, "f32(2, 3, 4)")},
      {"gradients of softmax and log_softmax",
       [](GraphBuilder& g) {
         const Value y = F32(g, "y", {2, 3});
         const Value dy = F32(g, "dy", {2, 3});
         return Values{SoftmaxGrad(y, dy), LogSoftmaxGrad(y, dy)};
       },
       std::vector<std::string>(2, "f32(2, 3)")},
      {"cross_entropy",
       [](GraphBuilder& g) {
         CrossEntropy(F32(g, "logits", {4, 6, 10}), I32(g, "labels", {4, 6}));
         return Last(g);
       },
       {"f32()", "f32(4, 6)"}},
      {"cross_entropy in bf16 keeps statistics in f32",
       [](GraphBuilder& g) {
         CrossEntropy(BF16(g, "logits", {4, 10}), I32(g, "labels", {4}));
         return Last(g);
       },
       {"f32()", "f32(4)"}},
      {"cross_entropy in f64, of one row",
       [](GraphBuilder& g) {
         CrossEntropy(F64(g, "logits", {10}), I64(g, "labels", {}));
         return Last(g);
       },
       {"f64()", "f64()"}},
      {"cross_entropy_grad",
       [](GraphBuilder& g) {
         return Only(CrossEntropyGrad(BF16(g, "logits", {4, 10}),
                                      I32(g, "labels", {4}), F32(g, "l", {4}),
                                      F32(g, "d", {})));
       },
       {"bf16(4, 10)"}},
      {"linear_cross_entropy",
       [](GraphBuilder& g) {
         LinearCrossEntropy(F32(g, "x", {4, 6, 8}), F32(g, "w", {10, 8}),
                            I32(g, "labels", {4, 6}), 7);
         return Last(g);
       },
       {"f32()", "f32(4, 6)"}},
      {"linear_cross_entropy in f64, of one row",
       [](GraphBuilder& g) {
         LinearCrossEntropy(F64(g, "x", {8}), F64(g, "w", {10, 8}),
                            I64(g, "labels", {}), 1);
         return Last(g);
       },
       {"f64()", "f64()"}},
      {"linear_cross_entropy_grad in bf16 keeps the loss in f32",
       [](GraphBuilder& g) {
         const LinearCrossEntropyGrads grads = LinearCrossEntropyGrad(
             BF16(g, "x", {4, 8}), BF16(g, "w", {10, 8}), I64(g, "labels", {4}),
             F32(g, "dloss", {}), 2);
         return Values{grads.loss, grads.dx, grads.dw};
       },
       {"f32()", "bf16(4, 8)", "bf16(10, 8)"}},
      {"linear_cross_entropy of a frozen matrix in blocks, with weights",
       [](GraphBuilder& g) {
         const Value x = BF16(g, "x", {4, 64});
         const Value w = g.Input("w", DType::kU8, {10, 2 * 20});
         const Value labels = I64(g, "labels", {4});
         const LinearCrossEntropyOptions options = {
             .weights = F32(g, "weights", {4}), .blocks = WeightType::kQ4_1};
         const LinearCrossEntropyGrads grads = LinearCrossEntropyGrad(
             x, w, labels, F32(g, "dloss", {}), 2, options, false);
         return Values{LinearCrossEntropy(x, w, labels, 2, options), grads.loss,
                       grads.dx};
       },
       {"f32()", "f32()", "bf16(4, 64)"}},
      {"grouped_matmul, either way round, and its weights' gradient",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {7, 3}), dy = F32(g, "dy", {7, 4});
         const Value ends = g.Input("ends", DType::kI64, {2});
         return std::vector{
             GroupedMatMul(x, F32(g, "w", {2, 3, 4}), ends),
             GroupedMatMul(x, F32(g, "v", {2, 4, 3}), ends, true),
             GroupedMatMulWeightGrad(x, dy, ends)};
       },
       {"f32(7, 4)", "f32(7, 4)", "f32(2, 3, 4)"}},
      {"quantized_matmul",
       [](GraphBuilder& g) {
         const Value w = g.Input("w", DType::kU8, {10, 3 * 34});
         return Values{
             QuantizedMatMul(F32(g, "x", {4, 6, 96}), w, WeightType::kQ8_0),
             QuantizedMatMul(BF16(g, "dy", {4, 10}), w, WeightType::kQ8_0,
                             false)};
       },
       {"f32(4, 6, 10)", "bf16(4, 96)"}},
      {"quantized_gather",
       [](GraphBuilder& g) {
         return Only(QuantizedGather(g.Input("t", DType::kU8, {10, 210}),
                                     I64(g, "indices", {4, 2}),
                                     WeightType::kQ6_K));
       },
       {"f32(4, 2, 256)"}},
      {"mean_squared_error",
       [](GraphBuilder& g) {
         return Only(
             MeanSquaredError(F32(g, "p", {4, 2}), F32(g, "t", {4, 2})));
       },
       {"f32()"}},
      {"layer_norm",
       [](GraphBuilder& g) {
         LayerNorm(F32(g, "x", {4, 6, 8}), F32(g, "gamma", {8}),
                   F32(g, "beta", {8}));
         return Last(g);
       },
       {"f32(4, 6, 8)", "f32(4, 6)", "f32(4, 6)"}},
      {"layer_norm in bf16 keeps statistics in f32",
       [](GraphBuilder& g) {
         LayerNorm(BF16(g, "x", {4, 8}), BF16(g, "gamma", {8}),
                   BF16(g, "beta", {8}));
         return Last(g);
       },
       {"bf16(4, 8)", "f32(4)", "f32(4)"}},
      {"batch_norm of images in f16 keeps statistics in f32",
       [](GraphBuilder& g) {
         const BatchNormResults r =
             BatchNorm(g.Input("x", DType::kF16, {4, 8, 5, 5}),
                       g.Param("gamma", DType::kF16, {8}),
                       g.Param("beta", DType::kF16, {8}));
         return Values{r.y, r.mean, r.variance};
       },
       {"f16(4, 8, 5, 5)", "f32(8)", "f32(8)"}},
      {"batch_norm_grad of rows",
       [](GraphBuilder& g) {
         const BatchNormGrads grads = BatchNormGrad(
             F64(g, "x", {4, 8}), F64(g, "gamma", {8}), F64(g, "mean", {8}),
             F64(g, "variance", {8}), F64(g, "dy", {4, 8}), 1e-5);
         return Values{grads.dx, grads.dgamma, grads.dbeta};
       },
       {"f64(4, 8)", "f64(8)", "f64(8)"}},
      {"local_response_norm",
       [](GraphBuilder& g) {
         const Value x = g.Input("x", DType::kF16, {2, 3, 4, 5});
         const Value y = LocalResponseNorm(x);
         return Values{y, Apply(OpKind::kLocalResponseNormGrad, {x, y},
                                g.graph().nodes().back().attrs)};
       },
       {"f16(2, 3, 4, 5)", "f16(2, 3, 4, 5)"}},
      {"lstm",
       [](GraphBuilder& g) {
         const auto f64 = [&](const char* name, const Shape& shape) {
           return F64(g, name, shape);
         };
         LstmSequence(f64("gates", {3, 7, 20}), f64("h0", {3, 5}),
                      f64("c0", {3, 5}), f64("w", {20, 5}));
         return Last(g);
       },
       {"f64(3, 7, 20)", "f64(3, 7, 5)", "f64(3, 7, 5)"}},
      {"lstm_grad and lstm_weight_grad",
       [](GraphBuilder& g) {
         const Value c = BF16(g, "c", {3, 7, 5});
         const Value state = BF16(g, "state", {3, 5});
         const Value gates = BF16(g, "gates", {3, 7, 20});
         const LstmGrads grads = LstmGrad(gates, state, BF16(g, "w", {20, 5}),
                                          c, c, c, /*reverse=*/true);
         return Values{grads.dgates, grads.dh0, grads.dc0,
                       LstmWeightGrad(gates, state, c, /*reverse=*/true)};
       },
       {"bf16(3, 7, 20)", "bf16(3, 5)", "bf16(3, 5)", "bf16(20, 5)"}},
      {"rms_norm in f16 keeps its statistic in f32",
       [](GraphBuilder& g) {
         RmsNorm(g.Input("x", DType::kF16, {4, 6, 8}),
                 g.Input("gamma", DType::kF16, {8}));
         return Last(g);
       },
       {"f16(4, 6, 8)", "f32(4, 6)"}},
      {"rms_norm_grad",
       [](GraphBuilder& g) {
         const RmsNormGrads grads =
             RmsNormGrad(F64(g, "x", {4, 6, 8}), F64(g, "gamma", {8}),
                         F64(g, "rstd", {4, 6}), F64(g, "dy", {4, 6, 8}));
         return Values{grads.dx, grads.dgamma};
       },
       {"f64(4, 6, 8)", "f64(8)"}},
      {"rope at positions of each example",
       [](GraphBuilder& g) {
         return Only(Rope(BF16(g, "q", {2, 5, 4, 8}), I32(g, "at", {2, 5}),
                          {.dims = 6}));
       },
       {"bf16(2, 5, 4, 8)"}},
      {"glu",
       [](GraphBuilder& g) {
         return Only(GeGlu(BF16(g, "gate", {4, 8}), BF16(g, "up", {4, 8})));
       },
       {"bf16(4, 8)"}},
      {"glu_grad",
       [](GraphBuilder& g) {
         const GluGrads grads =
             GluGrad(F32(g, "gate", {4, 8}), F32(g, "up", {4, 8}),
                     F32(g, "dy", {4, 8}), GluActivation::kGeluErf);
         return Values{grads.dgate, grads.dup};
       },
       {"f32(4, 8)", "f32(4, 8)"}},
      {"layer_norm_grad",
       [](GraphBuilder& g) {
         const LayerNormGrads grads =
             LayerNormGrad(F64(g, "x", {4, 6, 8}), F64(g, "gamma", {8}),
                           F64(g, "mean", {4, 6}), F64(g, "rstd", {4, 6}),
                           F64(g, "dy", {4, 6, 8}));
         return Values{grads.dx, grads.dgamma, grads.dbeta};
       },
       {"f64(4, 6, 8)", "f64(8)", "f64(8)"}},
      {"layer_norm_grad_add",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {4, 8});
         const Value gamma = F32(g, "gamma", {8});
         const Value rows = F32(g, "mean", {4});
         return g.Emit(OpKind::kLayerNormGradAdd,
                       Values{x, gamma, rows, rows, x, x}, {});
       },
       {"f32(4, 8)", "f32(8)", "f32(8)"}},
      {"layer_norm_grad in parts, and their sums",
       [](GraphBuilder& g) {
         const Value x = BF16(g, "x", {4, 6, 8});
         const Value rows = F32(g, "mean", {4, 6});
         Values results =
             g.Emit(OpKind::kLayerNormGrad,
                    Values{x, BF16(g, "gamma", {8}), rows, rows, x},
                    {{"parts", int64_t{24}}});
         const Values sums =
             g.Emit(OpKind::kSumPartials, std::span(results).subspan(1),
                    {{"dtype", DType::kBF16}});
         results.insert(results.end(), sums.begin(), sums.end());
         return results;
       },
       {"bf16(4, 6, 8)", "f32(24, 8)", "f32(24, 8)", "bf16(8)", "bf16(8)"}},
      {"rms_norm_grad in one part",
       [](GraphBuilder& g) {
         const Value x = F64(g, "x", {8});
         return g.Emit(OpKind::kRmsNormGrad,
                       Values{x, F64(g, "gamma", {8}), F64(g, "rstd", {}), x},
                       {{"parts", int64_t{1}}});
       },
       {"f64(8)", "f64(1, 8)"}},
      {"sum_partials of many, more than other ops have results",
       [](GraphBuilder& g) {
         Values partials;
         for (const char* name :
              {"a", "b", "c", "d", "e", "f", "g", "h", "i"}) {
           const auto columns = static_cast<int64_t>(partials.size()) + 1;
           partials.push_back(F32(g, name, {3, columns}));
         }
         return g.Emit(OpKind::kSumPartials, partials,
                       {{"dtype", DType::kF32}});
       },
       {"f32(1)", "f32(2)", "f32(3)", "f32(4)", "f32(5)", "f32(6)", "f32(7)",
        "f32(8)", "f32(9)"}},
      {"attention_qkv_grad",
       [](GraphBuilder& g) {
         const Value q = BF16(g, "q", {2, 5, 6, 8});
         const Value k = BF16(g, "k", {2, 5, 3, 8});
         return g.Emit(
             OpKind::kAttentionQkvGrad,
             Values{q, k, k, q, F32(g, "l", {2, 6, 5}), q},
             {{"scale", 0.5}, {"causal", int64_t{1}}, {"window", int64_t{0}}});
       },
       {"bf16(2, 5, 96)"}},
      {"attention of more keys than queries",
       [](GraphBuilder& g) {
         Attention(F64(g, "q", {2, 5, 6, 8}), F64(g, "k", {2, 9, 1, 8}),
                   F64(g, "v", {2, 9, 1, 8}),
                   {.window = 4, .key_lengths = I32(g, "n", {2})});
         return Last(g);
       },
       {"f64(2, 5, 6, 8)", "f64(2, 6, 5)"}},
      {"attention with grouped heads",
       [](GraphBuilder& g) {
         CausalAttention(F32(g, "q", {2, 5, 6, 8}), F32(g, "k", {2, 5, 3, 8}),
                         F32(g, "v", {2, 5, 3, 8}));
         return Last(g);
       },
       {"f32(2, 5, 6, 8)", "f32(2, 6, 5)"}},
      {"attention_grad",
       [](GraphBuilder& g) {
         const AttentionGrads grads =
             AttentionGrad(F32(g, "q", {2, 5, 6, 8}), F32(g, "k", {2, 5, 3, 8}),
                           F32(g, "v", {2, 5, 3, 8}), F32(g, "o", {2, 5, 6, 8}),
                           F32(g, "l", {2, 6, 5}), F32(g, "d_o", {2, 5, 6, 8}));
         return Values{grads.dq, grads.dk, grads.dv};
       },
       {"f32(2, 5, 6, 8)", "f32(2, 5, 3, 8)", "f32(2, 5, 3, 8)"}},
      {"attention with a bias",
       [](GraphBuilder& g) {
         Attention(BF16(g, "q", {2, 5, 6, 8}), BF16(g, "k", {2, 9, 1, 8}),
                   BF16(g, "v", {2, 9, 1, 8}),
                   {.key_lengths = I32(g, "n", {2}),
                    .bias = BF16(g, "bias", {1, 6, 1, 9})});
         return Last(g);
       },
       {"bf16(2, 5, 6, 8)", "f32(2, 6, 5)"}},
      {"attention_bias_grad",
       [](GraphBuilder& g) {
         const Value bias = F32(g, "bias", {2, 1, 5, 7});
         return Only(AttentionBiasGrad(
             F32(g, "q", {2, 5, 6, 8}), F32(g, "k", {2, 7, 3, 8}),
             F32(g, "v", {2, 7, 3, 8}), F32(g, "o", {2, 5, 6, 8}),
             F32(g, "l", {2, 6, 5}), F32(g, "d_o", {2, 5, 6, 8}),
             {.key_lengths = I32(g, "n", {2}), .bias = bias}));
       },
       {"f32(2, 1, 5, 7)"}},
      {"assign",
       [](GraphBuilder& g) {
         return Only(
             Assign(g.State("s", DType::kI32, {2, 3}), I32(g, "x", {2, 3})));
       },
       {"i32(2, 3)"}},
      {"lerp_update by a number",
       [](GraphBuilder& g) {
         return Only(LerpUpdate(g.State("s", DType::kF32, {2, 3}),
                                F32(g, "x", {2, 3}), F32(g, "weight", {})));
       },
       {"f32(2, 3)"}},
      {"slice_update along an axis from the end",
       [](GraphBuilder& g) {
         return Only(SliceUpdate(g.State("s", DType::kF32, {2, 3}),
                                 F32(g, "x", {2, 1}), -1, 2));
       },
       {"f32(2, 3)"}},
      {"conv and its gradients",
       [](GraphBuilder& g) {
         const Value x = F32(g, "x", {2, 6, 9, 8});
         const Value w = F32(g, "w", {4, 3, 3, 2});
         const ConvOptions options = {.stride = 2, .groups = 2};
         const Value y = Conv(x, w, options);
         return Values{
             y, ConvTranspose(y, w, {.stride = 2, .groups = 2, .size = {9, 8}}),
             ConvWeightGrad(x, y, {3, 2}, options)};
       },
       {"f32(2, 4, 4, 4)", "f32(2, 6, 9, 8)", "f32(4, 3, 3, 2)"}},
      {"sgd_update",
       [](GraphBuilder& g) {
         const Value w = g.Param("w", DType::kF32, {2, 3});
         return Only(SgdUpdate(w, F32(g, "dw", {2, 3}), F32(g, "lr", {}),
                               Value(), 0.1));
       },
       {"f32(2, 3)"}},
      {"momentum_update with a clip factor",
       [](GraphBuilder& g) {
         const MomentumResults r = MomentumUpdate(
             g.Param("w", DType::kF32, {2, 3}),
             g.State("velocity", DType::kF32, {2, 3}), F32(g, "dw", {2, 3}),
             F32(g, "lr", {}), F32(g, "clip", {}), 0.9, 0);
         return Values{r.w, r.velocity};
       },
       {"f32(2, 3)", "f32(2, 3)"}},
      {"nesterov_update with a clip factor",
       [](GraphBuilder& g) {
         const MomentumResults r = NesterovUpdate(
             g.Param("w", DType::kF32, {2, 3}),
             g.State("velocity", DType::kF32, {2, 3}), F32(g, "dw", {2, 3}),
             F32(g, "lr", {}), F32(g, "clip", {}), 0.9, 0);
         return Values{r.w, r.velocity};
       },
       {"f32(2, 3)", "f32(2, 3)"}},
      {"rmsprop_update",
       [](GraphBuilder& g) {
         const MeanSquareResults r = RmsPropUpdate(
             g.Param("w", DType::kF32, {2, 3}),
             g.State("v", DType::kF32, {2, 3}), F32(g, "dw", {2, 3}),
             F32(g, "lr", {}), Value(), 0.9, 1e-8, 0);
         return Values{r.w, r.v};
       },
       {"f32(2, 3)", "f32(2, 3)"}},
      {"adagrad_update",
       [](GraphBuilder& g) {
         const MeanSquareResults r = AdagradUpdate(
             g.Param("w", DType::kF64, {2}), g.State("v", DType::kF64, {2}),
             F64(g, "dw", {2}), F32(g, "lr", {}), Value(), 1e-10, 0);
         return Values{r.w, r.v};
       },
       {"f64(2)", "f64(2)"}},
      {"adam_update",
       [](GraphBuilder& g) {
         const AdamWResults r = AdamUpdate(
             g.Param("w", DType::kF64, {2}), g.State("m", DType::kF64, {2}),
             g.State("v", DType::kF64, {2}), F64(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), Value(), 0.9, 0.999, 1e-8,
             0.01);
         return Values{r.w, r.m, r.v};
       },
       {"f64(2)", "f64(2)", "f64(2)"}},
      {"adamw_update",
       [](GraphBuilder& g) {
         const AdamWResults r = AdamWUpdate(
             g.Param("w", DType::kF64, {2}), g.State("m", DType::kF64, {2}),
             g.State("v", DType::kF64, {2}), F64(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), Value(), 0.9, 0.999, 1e-8,
             0.01);
         return Values{r.w, r.m, r.v};
       },
       {"f64(2)", "f64(2)", "f64(2)"}},
      {"adamw_update with a clip factor",
       [](GraphBuilder& g) {
         const AdamWResults r = AdamWUpdate(
             g.Param("w", DType::kF32, {2}), g.State("m", DType::kF32, {2}),
             g.State("v", DType::kF32, {2}), F32(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), F32(g, "clip", {}), 0.9,
             0.999, 1e-8, 0.01);
         return Values{r.w, r.m, r.v};
       },
       {"f32(2)", "f32(2)", "f32(2)"}},
      {"adamw_split_update with a clip factor",
       [](GraphBuilder& g) {
         const AdamWSplitResults r = AdamWSplitUpdate(
             g.Param("w", DType::kBF16, {2}),
             g.State("delta", DType::kI16, {2}), g.State("m", DType::kF32, {2}),
             g.State("v", DType::kF32, {2}), BF16(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), F32(g, "clip", {}), 0.9,
             0.999, 1e-8, 0.01);
         return Values{r.w, r.delta, r.m, r.v};
       },
       {"bf16(2)", "i16(2)", "f32(2)", "f32(2)"}},
      {"adamw_split_update of 24 bits",
       [](GraphBuilder& g) {
         const AdamWSplitResults r = AdamWSplitUpdate(
             g.Param("w", DType::kBF16, {2}), g.State("delta", DType::kU8, {2}),
             g.State("m", DType::kF32, {2}), g.State("v", DType::kF32, {2}),
             BF16(g, "dw", {2}), F32(g, "lr", {}), I64(g, "step", {}), Value(),
             0.9, 0.999, 1e-8, 0.01);
         return Values{r.w, r.delta, r.m, r.v};
       },
       {"bf16(2)", "u8(2)", "f32(2)", "f32(2)"}},
      {"adamw_bf16_update",
       [](GraphBuilder& g) {
         const AdamWResults r = AdamWBf16Update(
             g.Param("w", DType::kF32, {2}), g.State("m", DType::kBF16, {2}),
             g.State("v", DType::kBF16, {2}), F32(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), I64(g, "seed", {}),
             F32(g, "clip", {}), {}, {1, 256});
         return Values{r.w, r.m, r.v};
       },
       {"f32(2)", "bf16(2)", "bf16(2)"}},
      {"adamw_bf16_split_update",
       [](GraphBuilder& g) {
         const AdamWSplitResults r = AdamWBf16SplitUpdate(
             g.Param("w", DType::kBF16, {2}), g.State("delta", DType::kU8, {2}),
             g.State("m", DType::kBF16, {2}), g.State("v", DType::kBF16, {2}),
             BF16(g, "dw", {2}), F32(g, "lr", {}), I64(g, "step", {}),
             I64(g, "seed", {}), Value(), {}, {1, 0});
         return Values{r.w, r.delta, r.m, r.v};
       },
       {"bf16(2)", "u8(2)", "bf16(2)", "bf16(2)"}},
      {"adamw_8bit_update",
       [](GraphBuilder& g) {
         const Shape shape{3, 171};  // 513 elements
         const AdamW8BitResults r = AdamW8BitUpdate(
             g.Param("w", DType::kF32, shape),
             {g.State("m", DType::kU8, shape), g.State("v", DType::kU8, shape),
              g.State("m_scale", DType::kF32, {3}),
              g.State("v_scale", DType::kF32, {3})},
             F32(g, "dw", shape), F32(g, "lr", {}), I64(g, "step", {}), Value(),
             {}, MomentCode::kDynamic);
         const auto& [m, v, m_scale, v_scale] = r.moments;
         return Values{r.w, m, v, m_scale, v_scale};
       },
       {"f32(3, 171)", "u8(3, 171)", "u8(3, 171)", "f32(3)", "f32(3)"}},
      {"adamw_8bit_split_update",
       [](GraphBuilder& g) {
         const AdamW8BitResults r = AdamW8BitSplitUpdate(
             g.Param("w", DType::kBF16, {256}),
             g.State("delta", DType::kI16, {256}),
             {g.State("m", DType::kU8, {256}), g.State("v", DType::kU8, {256}),
              g.State("m_scale", DType::kF32, {1}),
              g.State("v_scale", DType::kF32, {1})},
             BF16(g, "dw", {256}), F32(g, "lr", {}), I64(g, "step", {}),
             F32(g, "clip", {}), {}, MomentCode::kCompanded);
         const auto& [m, v, m_scale, v_scale] = r.moments;
         return Values{r.w, r.delta, m, v, m_scale, v_scale};
       },
       {"bf16(256)", "i16(256)", "u8(256)", "u8(256)", "f32(1)", "f32(1)"}},
      {"momentum_bf16_update",
       [](GraphBuilder& g) {
         const MomentumResults r = MomentumBf16Update(
             g.Param("w", DType::kF32, {2}), g.State("u", DType::kBF16, {2}),
             F32(g, "dw", {2}), F32(g, "lr", {}), I64(g, "step", {}),
             I64(g, "seed", {}), Value(), 0.9, 0, {1, 4});
         return Values{r.w, r.velocity};
       },
       {"f32(2)", "bf16(2)"}},
      {"momentum_bf16_split_update",
       [](GraphBuilder& g) {
         const MomentumSplitResults r = MomentumBf16SplitUpdate(
             g.Param("w", DType::kBF16, {2}),
             g.State("delta", DType::kI16, {2}),
             g.State("u", DType::kBF16, {2}), BF16(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), I64(g, "seed", {}), Value(),
             0.9, 0, {1, 0});
         return Values{r.w, r.delta, r.velocity};
       },
       {"bf16(2)", "i16(2)", "bf16(2)"}},
      {"join_weight",
       [](GraphBuilder& g) {
         return Only(JoinWeight(g.Param("w", DType::kBF16, {2, 3}),
                                g.State("delta", DType::kI16, {2, 3})));
       },
       {"f32(2, 3)"}},
      {"split_update",
       [](GraphBuilder& g) {
         const SplitWeight r = SplitUpdate(g.Param("w", DType::kBF16, {2, 3}),
                                           g.State("d", DType::kI16, {2, 3}),
                                           F32(g, "x", {2, 3}));
         return Values{r.w, r.delta};
       },
       {"bf16(2, 3)", "i16(2, 3)"}},
      {"stand_in of two operands, for three results",
       [](GraphBuilder& g) {
         const Value operands[] = {F32(g, "x", {2, 8, 8, 3}),
                                   BF16(g, "w", {5})};
         const Shape shapes[] = {{2, 4, 4, 5}, {5}, {}};
         return StandIn(operands, DType::kF16, shapes, 1e6);
       },
       {"f16(2, 4, 4, 5)", "f16(5)", "f16()"}},
  };
  return kRows;
}

}  // namespace stowage
