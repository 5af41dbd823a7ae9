// The messages of mistakes that the ops can name, word for word: elementwise ops,
// reductions, products and layers.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "ir/builder.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/ir/op_rows.h"

namespace stowage {
namespace {

using L = std::vector<int64_t>;
using Values = std::vector<Value>;

// An epilogue_matmul of a (2, 3) and b (3, 5), on operands of these shapes.
void Epilogue(GraphBuilder& g, const std::vector<Shape>& operands, int64_t bias,
              int64_t addend, int64_t gelu_grad, int64_t a_sums = 0,
              int64_t b_sums = 0) {
  Values x = {F32(g, "a", {2, 3}), F32(g, "b", {3, 5})};
  const char* const names[] = {"x0", "x1", "x2"};
  for (const Shape& shape : operands) {
    x.push_back(F32(g, names[x.size() - 2], shape));
  }
  g.Emit(OpKind::kEpilogueMatMul, x,
         {{"transpose_a", int64_t{0}},
          {"transpose_b", int64_t{0}},
          {"bias", bias},
          {"addend", addend},
          {"gelu_grad", gelu_grad},
          {"a_sums", a_sums},
          {"b_sums", b_sums}});
}

// The product of (2, 3, 4) by (4, 5) with sums of one of them.
void Sums(GraphBuilder& g, int64_t of_a) {
  g.Emit(OpKind::kEpilogueMatMul,
         Values{F32(g, "a", {2, 3, 4}), F32(g, "b", {4, 5})},
         {{"transpose_a", int64_t{0}},
          {"transpose_b", int64_t{0}},
          {"bias", int64_t{0}},
          {"addend", int64_t{0}},
          {"gelu_grad", int64_t{0}},
          {"a_sums", of_a},
          {"b_sums", 1 - of_a}});
}

TEST_CASE("epilogues") {
  CheckRows({
      {[](GraphBuilder& g) { Epilogue(g, {}, 0, 0, 0); },
       "[epilogue_matmul] does nothing beside its product; expected bias, "
       "addend, gelu_grad, a_sums or b_sums to be 1, or a matmul"},
      {[](GraphBuilder& g) { Epilogue(g, {{5}}, 1, 1, 0); },
       "[epilogue_matmul] has 3 operands; expected 4, as bias, addend and "
       "gelu_grad say"},
      {[](GraphBuilder& g) {
         Epilogue(g, {{2, 5}}, 1, 0, 0);
       },
       "[epilogue_matmul] bias \"x0\" is f32(2, 5); expected f32(5), since "
       "that is the type of the product's rows"},
      {[](GraphBuilder& g) { Epilogue(g, {{5}}, 0, 1, 0); },
       "[epilogue_matmul] addend \"x0\" is f32(5); expected f32(2, 5), since "
       "that is the product's type"},
      {[](GraphBuilder& g) {
         Epilogue(g, {{2, 4}}, 0, 0, 1);
       },
       "[epilogue_matmul] x \"x0\" is f32(2, 4); expected f32(2, 5), since "
       "that is the product's type"},
      {[](GraphBuilder& g) { Epilogue(g, {{5}}, 1, 0, 0, 0, 1); },
       "[epilogue_matmul] has bias, b_sums; expected a_sums or b_sums by "
       "themselves"},
      {[](GraphBuilder& g) { Epilogue(g, {}, 0, 0, 0, 1, 1); },
       "[epilogue_matmul] has a_sums, b_sums; expected a_sums or b_sums by "
       "themselves"},
      {[](GraphBuilder& g) { Epilogue(g, {{5}}, 0, 0, 0, 1, 0); },
       "[epilogue_matmul] has 3 operands; expected 2, as bias, addend and "
       "gelu_grad say"},
      {[](GraphBuilder& g) { Sums(g, 1); },
       "[epilogue_matmul] a \"a\" is f32(2, 3, 4); a_sums wants two matrices"},
      {[](GraphBuilder& g) { Sums(g, 0); },
       "[epilogue_matmul] a \"a\" is f32(2, 3, 4); b_sums wants two matrices"},
  });
}

TEST_CASE("elementwise") {
  CheckRows({
      {[](GraphBuilder& g) { Exp(I32(g, "x", {4})); },
       "[exp] x \"x\" is i32(4); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) { Neg(Bool(g, "x", {4})); },
       "[neg] x \"x\" is bool(4); expected any element type but bool"},
      {[](GraphBuilder& g) { LogicalNot(F32(g, "x", {4})); },
       "[logical_not] x \"x\" is f32(4); expected bool"},
      {[](GraphBuilder& g) {
         Add(F32(g, "a", {2, 3}), F32(g, "b", {4}));
       },
       "[add] shapes do not broadcast: a \"a\" is f32(2, 3), b \"b\" is "
       "f32(4); counted from the last, dimensions must be equal or 1"},
      {[](GraphBuilder& g) {
         Mul(F32(g, "a", {2, 3}), F64(g, "b", {3}));
       },
       "[mul] element types differ: a \"a\" is f32(2, 3), b \"b\" is f64(3); "
       "expected one element type: cast one of them"},
      {[](GraphBuilder& g) {
         Div(I32(g, "a", {3}), I32(g, "b", {2, 3}));
       },
       "[div] a \"a\" is i32(3); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) { Less(Bool(g, "a", {3}), Bool(g, "b", {3})); },
       "[less] a \"a\" is bool(3); expected any element type but bool"},
      {[](GraphBuilder& g) { LogicalOr(Bool(g, "a", {3}), F32(g, "b", {3})); },
       "[logical_or] element types differ: a \"a\" is bool(3), b \"b\" is "
       "f32(3); expected one element type: cast one of them"},
      {[](GraphBuilder& g) {
         Add(F32(g, "a", {kHuge, 1}), F32(g, "b", {kHuge}));
       },
       "[broadcast] shape (1099511627776, 1099511627776) is too large; its "
       "bytes must fit 64 bits"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kAdd, Values{F32(g, "a", {2, 3}), F32(g, "b", {3})},
                {});
       },
       "[add] shapes differ: a \"a\" is f32(2, 3), b \"b\" is f32(3); expected "
       "one shape"},
      {[](GraphBuilder& g) {
         ReluGrad(F32(g, "h", {2, 3}), F32(g, "dh", {3}));
       },
       "[relu_grad] shapes differ: y \"h\" is f32(2, 3), dy \"dh\" is f32(3); "
       "expected one shape"},
      {[](GraphBuilder& g) {
         GeluTanhGrad(F32(g, "h", {3}), F64(g, "dh", {3}));
       },
       "[gelu_tanh_grad] element types differ: x \"h\" is f32(3), dy \"dh\" is "
       "f64(3); expected one element type: cast one of them"},
      {[](GraphBuilder& g) {
         Where(I32(g, "c", {3}), F32(g, "a", {3}), F32(g, "b", {3}));
       },
       "[where] condition \"c\" is i32(3); expected bool"},
      {[](GraphBuilder& g) {
         Where(Bool(g, "c", {3}), F32(g, "a", {2, 3}), F64(g, "b", {}));
       },
       "[where] element types differ: a \"a\" is f32(2, 3), b \"b\" is f64(); "
       "expected one element type: cast one of them"},
      {[](GraphBuilder& g) {
         Where(Bool(g, "c", {4}), F32(g, "a", {3}), F32(g, "b", {2, 1}));
       },
       "[where] shapes do not broadcast: condition \"c\" is bool(4), a \"a\" "
       "is f32(3), b \"b\" is f32(2, 1); counted from the last, dimensions "
       "must be equal or 1"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kWhere,
                Values{Bool(g, "c", {4}), F32(g, "a", {3}), F32(g, "b", {3})},
                {});
       },
       "[where] condition \"c\" is bool(4); expected bool(3), since a \"a\" is "
       "f32(3)"},
      {[](GraphBuilder& g) {
         Dropout(I32(g, "x", {3}), I64(g, "seed", {}), I64(g, "step", {}), 0.5,
                 0);
       },
       "[dropout] x \"x\" is i32(3); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         Dropout(F32(g, "x", {3}), I32(g, "seed", {}), I64(g, "step", {}), 0.5,
                 0);
       },
       "[dropout] seed \"seed\" is i32(); expected i64(), a scalar"},
      {[](GraphBuilder& g) {
         Dropout(F32(g, "x", {3}), I64(g, "seed", {}), I64(g, "step", {1}), 0.5,
                 0);
       },
       "[dropout] step \"step\" is i64(1); expected i64(), a scalar"},
      {[](GraphBuilder& g) {
         Dropout(F32(g, "x", {3}), I64(g, "seed", {}), I64(g, "step", {}), 1,
                 0);
       },
       "[dropout] p is 1; expected at least 0 and below 1"},
      {[](GraphBuilder& g) {
         Dropout(F32(g, "x", {3}), I64(g, "seed", {}), I64(g, "step", {}), kNaN,
                 0);
       },
       "[dropout] p is nan; expected at least 0 and below 1"},
  });
}

TEST_CASE("reductions") {
  CheckRows({
      {[](GraphBuilder& g) {
         ReduceSum(F32(g, "x", {2, 3}), {2});
       },
       "[reduce_sum] axes (2) are wrong: x \"x\" is f32(2, 3); expected "
       "distinct axes from 0 to 1 in increasing order"},
      {[](GraphBuilder& g) {
         ReduceMax(F32(g, "x", {2, 3}), {1, -1});
       },
       "[reduce_max] axes (1, 1) are wrong: x \"x\" is f32(2, 3); expected "
       "distinct axes from 0 to 1 in increasing order"},
      {[](GraphBuilder& g) {
         ReduceMax(F32(g, "x", {2, 3}), {0, -3});
       },
       "[reduce_max] axes (-3, 0) are wrong: x \"x\" is f32(2, 3); expected "
       "distinct axes from 0 to 1 in increasing order"},
      {[](GraphBuilder& g) { ReduceSum(F32(g, "x", {}), {0}); },
       "[reduce_sum] axes (0) are wrong: x \"x\" is f32(); expected none"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kReduceSum, Values{F32(g, "x", {2})},
                {{"axes", L{}}, {"keep", int64_t{0}}});
       },
       "[reduce_sum] axes () are wrong: x \"x\" is f32(2); expected distinct "
       "axes from 0 to 0 in increasing order"},
      {[](GraphBuilder& g) {
         ReduceMean(I32(g, "x", {2, 3}));
       },
       "[reduce_mean] x \"x\" is i32(2, 3); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         ReduceSum(Bool(g, "x", {2, 3}));
       },
       "[reduce_sum] x \"x\" is bool(2, 3); expected any element type but "
       "bool"},
      {[](GraphBuilder& g) {
         SumSquares(I32(g, "x", {2, 3}));
       },
       "[sum_squares] x \"x\" is i32(2, 3); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) { ArgMax(F32(g, "x", {})); },
       "[arg_max] x \"x\" is f32(); expected rank at least 1"},
      {[](GraphBuilder& g) { ArgMax(Bool(g, "x", {2})); },
       "[arg_max] x \"x\" is bool(2); expected any element type but bool"},
      {[](GraphBuilder& g) { ArgMax(F32(g, "x", {int64_t{1} << 31})); },
       "[arg_max] x \"x\" is f32(2147483648); an i32 index cannot count its "
       "last dimension"},
  });
}

TEST_CASE("products") {
  CheckRows({
      {[](GraphBuilder& g) {
         MatMul(F32(g, "h", {32, 128}), F32(g, "w2", {64, 10}));
       },
       "[matmul] inner sizes differ: a \"h\" is f32(32, 128), b \"w2\" is "
       "f32(64, 10); a's last must equal b's first"},
      {[](GraphBuilder& g) {
         MatMul(F32(g, "h", {4, 32, 128}), F32(g, "w2", {4, 64, 10}));
       },
       "[matmul] inner sizes differ: a \"h\" is f32(4, 32, 128), b \"w2\" is "
       "f32(4, 64, 10); a's last must equal b's last but one"},
      {[](GraphBuilder& g) {
         MatMul(F32(g, "h", {32, 128}), F32(g, "w2", {32, 10}), true, true);
       },
       "[matmul] inner sizes differ: a \"h\" is f32(32, 128), b \"w2\" is "
       "f32(32, 10); a's last but one must equal b's last"},
      {[](GraphBuilder& g) {  // named before anything is broadcast
         MatMul(F32(g, "h", {4, 1, 2, 3}), F32(g, "w2", {5, 2, 3}));
       },
       "[matmul] inner sizes differ: a \"h\" is f32(4, 1, 2, 3), b \"w2\" is "
       "f32(5, 2, 3); a's last must equal b's last but one"},
      {[](GraphBuilder& g) {
         MatMul(F32(g, "h", {4, 2, 3}), F32(g, "w2", {5, 3, 2}));
       },
       "[matmul] leading dimensions differ: a \"h\" is f32(4, 2, 3), b \"w2\" "
       "is f32(5, 3, 2); they must be equal, or b a single matrix"},
      {[](GraphBuilder& g) {
         MatMul(F32(g, "x", {3}), F32(g, "w", {3, 2}));
       },
       "[matmul] a \"x\" is f32(3); expected rank at least 2"},
      {[](GraphBuilder& g) {
         MatMul(F32(g, "x", {2, 2, 3}), F32(g, "w", {3}));
       },
       "[matmul] b \"w\" is f32(3); expected rank at least 2"},
      {[](GraphBuilder& g) {
         MatMul(I32(g, "x", {2, 3}), I32(g, "w", {3, 2}));
       },
       "[matmul] a \"x\" is i32(2, 3); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         MatMul(F32(g, "x", {2, 3}), F64(g, "w", {3, 2}));
       },
       "[matmul] element types differ: a \"x\" is f32(2, 3), b \"w\" is f64(3, "
       "2); expected one element type: cast one of them"},
      {[](GraphBuilder& g) {
         MatMul(F32(g, "x", {kHuge, 1}), F32(g, "w", {1, kHuge}));
       },
       "[matmul] result f32(1099511627776, 1099511627776) is too large; its "
       "bytes must fit 64 bits"},
  });
}

TEST_CASE("layers") {
  CheckRows({
      {[](GraphBuilder& g) { Softmax(I32(g, "x", {3})); },
       "[softmax] x \"x\" is i32(3); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         Softmax(F32(g, "x", {2, 3}), -3);
       },
       "[softmax] axis -3 is out of range: x \"x\" is f32(2, 3); expected -2 "
       "to 1"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kSoftmax, Values{F32(g, "x", {})}, {});
       },
       "[softmax] x \"x\" is f32(); expected rank at least 1"},
      {[](GraphBuilder& g) {
         SoftmaxGrad(F32(g, "p", {3}), F32(g, "dp", {4}));
       },
       "[softmax_grad] shapes differ: y \"p\" is f32(3), dy \"dp\" is f32(4); "
       "expected one shape"},
      {[](GraphBuilder& g) {
         CrossEntropy(F32(g, "logits", {4, 10}), F32(g, "labels", {4}));
       },
       "[cross_entropy] labels \"labels\" is f32(4); expected i32 or i64"},
      {[](GraphBuilder& g) {
         CrossEntropy(F32(g, "logits", {4, 10}), I64(g, "labels", {4, 10}));
       },
       "[cross_entropy] labels \"labels\" is i64(4, 10); expected i64(4), "
       "since logits \"logits\" is f32(4, 10)"},
      {[](GraphBuilder& g) {
         CrossEntropy(F32(g, "logits", {}), I64(g, "labels", {}));
       },
       "[cross_entropy] logits \"logits\" is f32(); expected rank at least 1"},
      {[](GraphBuilder& g) {
         CrossEntropyGrad(F32(g, "logits", {4, 10}), I64(g, "labels", {4}),
                          F32(g, "l", {10}), F32(g, "d", {}));
       },
       "[cross_entropy_grad] log_sum_exp \"l\" is f32(10); expected f32(4), "
       "since logits \"logits\" is f32(4, 10)"},
      {[](GraphBuilder& g) {
         CrossEntropyGrad(F32(g, "logits", {4, 10}), I64(g, "labels", {4}),
                          F32(g, "l", {4}), F64(g, "d", {}));
       },
       "[cross_entropy_grad] dloss \"d\" is f64(); expected f32(), since "
       "logits \"logits\" is f32(4, 10)"},
      {[](GraphBuilder& g) {
         LinearCrossEntropy(F32(g, "x", {4, 8}), F32(g, "w", {8, 10}),
                            I64(g, "labels", {4}), 2);
       },
       "[linear_cross_entropy] w \"w\" is f32(8, 10); expected (V, 8), since "
       "x \"x\" is f32(4, 8)"},
      {[](GraphBuilder& g) {
         LinearCrossEntropy(F32(g, "x", {4, 8}), F64(g, "w", {10, 8}),
                            I64(g, "labels", {4}), 2);
       },
       "[linear_cross_entropy] element types differ: x \"x\" is f32(4, 8), w "
       "\"w\" is f64(10, 8); expected one element type: cast one of them"},
      {[](GraphBuilder& g) {
         LinearCrossEntropy(F32(g, "x", {4, 8}), F32(g, "w", {10, 8}),
                            I64(g, "labels", {8}), 2);
       },
       "[linear_cross_entropy] labels \"labels\" is i64(8); expected i64(4), "
       "since x \"x\" is f32(4, 8)"},
      {[](GraphBuilder& g) {
         LinearCrossEntropy(F32(g, "x", {4, 8}), F32(g, "w", {10, 8}),
                            I64(g, "labels", {4}), 0);
       },
       "[linear_cross_entropy] chunk is 0; expected at least 1 row of logits"},
      {[](GraphBuilder& g) {
         LinearCrossEntropyGrad(F64(g, "x", {4, 8}), F64(g, "w", {10, 8}),
                                I64(g, "labels", {4}), F32(g, "d", {}), 2);
       },
       "[linear_cross_entropy_grad] dloss \"d\" is f32(); expected f64(), "
       "since x \"x\" is f64(4, 8)"},
      {[](GraphBuilder& g) {
         LinearCrossEntropy(F32(g, "x", {4, 8}), F32(g, "w", {10, 8}),
                            I64(g, "labels", {4}), 2,
                            {.weights = F32(g, "weights", {8})});
       },
       "[linear_cross_entropy] weights \"weights\" is f32(8); expected f32(4), "
       "since x \"x\" is f32(4, 8)"},
      {[](GraphBuilder& g) {
         LinearCrossEntropy(F32(g, "x", {4, 8}), F32(g, "w", {10, 8}),
                            I64(g, "labels", {4}), 2,
                            {.blocks = WeightType::kQ4_0});
       },
       "[linear_cross_entropy] w \"w\" is f32(10, 8); expected u8(rows, bytes "
       "of a row), in blocks of 18 bytes of Q4_0"},
      {[](GraphBuilder& g) {
         LinearCrossEntropyGrad(F32(g, "x", {4, 32}),
                                g.Input("w", DType::kU8, {10, 18}),
                                I64(g, "labels", {4}), F32(g, "d", {}), 2,
                                {.blocks = WeightType::kQ4_0});
       },
       "[linear_cross_entropy_grad] w \"w\" is u8(10, 18), in blocks, which "
       "have no gradient; expected weight_grad 0"},
      {[](GraphBuilder& g) {
         QuantizedMatMul(F32(g, "x", {4, 10}),
                         g.Input("w", DType::kU8, {10, 18}), WeightType::kQ4_0);
       },
       "[quantized_matmul] inner sizes differ: x \"x\" is f32(4, 10), w \"w\" "
       "is u8(10, 18), that is (10, 32) numbers, transposed"},
      {[](GraphBuilder& g) {
         QuantizedMatMul(F32(g, "x", {4, 32}),
                         g.Input("w", DType::kU8, {10, 19}), WeightType::kQ4_0);
       },
       "[quantized_matmul] w \"w\" is u8(10, 19); expected u8(rows, bytes of a "
       "row), in blocks of 18 bytes of Q4_0"},
      {[](GraphBuilder& g) {
         GroupedMatMul(F32(g, "x", {7, 3}), F32(g, "w", {2, 4, 3}),
                       I64(g, "ends", {2}));
       },
       "[grouped_matmul] inner sizes differ: x \"x\" is f32(7, 3), w \"w\" is "
       "f32(2, 4, 3); x's last must equal w's last but one"},
      {[](GraphBuilder& g) {
         GroupedMatMul(F32(g, "x", {7, 3}), F32(g, "w", {2, 3, 4}),
                       I64(g, "ends", {3}));
       },
       "[grouped_matmul] ends \"ends\" is i64(3); expected one for each of the "
       "2 matrices"},
      {[](GraphBuilder& g) {
         GroupedMatMul(F32(g, "x", {7, 3}), F32(g, "w", {3, 4}),
                       I64(g, "ends", {3}));
       },
       "[grouped_matmul] w \"w\" is f32(3, 4); expected 3 dimensions"},
      {[](GraphBuilder& g) {
         GroupedMatMul(F32(g, "x", {7, 3}), F32(g, "w", {2, 3, 4}),
                       F32(g, "ends", {2}));
       },
       "[grouped_matmul] ends \"ends\" is f32(2); expected i32 or i64"},
      {[](GraphBuilder& g) {
         GroupedMatMulWeightGrad(F32(g, "x", {7, 3}), F32(g, "dy", {6, 4}),
                                 I64(g, "ends", {2}));
       },
       "[grouped_matmul_weight_grad] rows differ: x \"x\" is f32(7, 3), dy "
       "\"dy\" is f32(6, 4); expected as many"},
      {[](GraphBuilder& g) {
         QuantizedGather(g.Input("t", DType::kU8, {10, 20}),
                         F32(g, "indices", {4}), WeightType::kQ4_1);
       },
       "[quantized_gather] indices \"indices\" is f32(4); expected i32 or i64"},
      {[](GraphBuilder& g) {
         MeanSquaredError(F32(g, "p", {4, 1}), F32(g, "t", {4}));
       },
       "[mean_squared_error] shapes differ: prediction \"p\" is f32(4, 1), "
       "target \"t\" is f32(4); expected one shape"},
      {[](GraphBuilder& g) {
         LayerNorm(I32(g, "x", {4, 8}), F32(g, "gamma", {8}),
                   F32(g, "beta", {8}));
       },
       "[layer_norm] x \"x\" is i32(4, 8); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         LayerNorm(F32(g, "x", {}), F32(g, "gamma", {}), F32(g, "beta", {}));
       },
       "[layer_norm] x \"x\" is f32(); expected rank at least 1"},
      {[](GraphBuilder& g) {
         LayerNorm(F32(g, "x", {4, 8}), F32(g, "gamma", {4}),
                   F32(g, "beta", {8}));
       },
       "[layer_norm] gamma \"gamma\" is f32(4); expected f32(8), since x \"x\" "
       "is f32(4, 8)"},
      {[](GraphBuilder& g) {
         LayerNorm(F32(g, "x", {4, 8}), F32(g, "gamma", {8}),
                   F64(g, "beta", {8}));
       },
       "[layer_norm] beta \"beta\" is f64(8); expected f32(8), since x \"x\" "
       "is f32(4, 8)"},
      {[](GraphBuilder& g) {
         LayerNorm(F32(g, "x", {4, 8}), F32(g, "gamma", {8}),
                   F32(g, "beta", {8}), 0);
       },
       "[layer_norm] eps is 0; expected a finite number above 0"},
      {[](GraphBuilder& g) {
         LayerNorm(F32(g, "x", {4, 8}), F32(g, "gamma", {8}),
                   F32(g, "beta", {8}), HUGE_VAL);
       },
       "[layer_norm] eps is inf; expected a finite number above 0"},
      {[](GraphBuilder& g) {
         LayerNormGrad(F32(g, "x", {4, 8}), F32(g, "gamma", {8}),
                       F32(g, "mean", {8}), F32(g, "rstd", {4}),
                       F32(g, "dy", {4, 8}));
       },
       "[layer_norm_grad] mean \"mean\" is f32(8); expected f32(4), since x "
       "\"x\" is f32(4, 8)"},
      {[](GraphBuilder& g) {
         LayerNormGrad(F32(g, "x", {4, 8}), F32(g, "gamma", {8}),
                       F32(g, "mean", {4}), F32(g, "rstd", {4}),
                       F32(g, "dy", {8}));
       },
       "[layer_norm_grad] dy \"dy\" is f32(8); expected f32(4, 8), since x "
       "\"x\" is f32(4, 8)"},
      {[](GraphBuilder& g) {
         const Value x = F32(g, "x", {4, 8});
         const Value rows = F32(g, "rows", {4});
         g.Emit(OpKind::kLayerNormGrad,
                std::vector{x, F32(g, "gamma", {8}), rows, rows, x},
                {{"parts", int64_t{5}}});
       },
       "[layer_norm_grad] parts is 5; expected 1 to 4, the rows of x \"x\" is "
       "f32(4, 8)"},
      {[](GraphBuilder& g) {
         const Value x = F32(g, "x", {4, 8});
         g.Emit(OpKind::kRmsNormGrad,
                std::vector{x, F32(g, "gamma", {8}), F32(g, "rows", {4}), x},
                {{"parts", int64_t{0}}});
       },
       "[rms_norm_grad] parts is 0; expected 1 to 4, the rows of x \"x\" is "
       "f32(4, 8)"},
      {[](GraphBuilder& g) {
         const Value x = F32(g, "x", {4, 8});
         g.Emit(OpKind::kRmsNormGrad,
                std::vector{x, F32(g, "gamma", {8}), F32(g, "rows", {4}), x},
                {{"blocks", int64_t{2}}});
       },
       "[rms_norm_grad] takes no attribute \"blocks\""},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kSumPartials, {}, {{"dtype", DType::kF32}});
       },
       "[sum_partials] has no partials; expected at least 1"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kSumPartials, std::vector{F32(g, "p", {4, 8})},
                {{"dtype", DType::kI32}});
       },
       "[sum_partials] dtype is i32; expected a float type"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kSumPartials,
                std::vector{F32(g, "p", {4, 8}), F64(g, "q", {4, 8})},
                {{"dtype", DType::kBF16}});
       },
       "[sum_partials] partial 1 \"q\" is f64(4, 8); expected f32 of rank 2, "
       "whose sums are bf16"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kSumPartials, std::vector{F32(g, "p", {8})},
                {{"dtype", DType::kF32}});
       },
       "[sum_partials] partial 0 \"p\" is f32(8); expected f32 of rank 2, "
       "whose sums are f32"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         const Value k = F32(g, "k", {2, 5, 3, 8});
         CausalAttention(q, k, k);
       },
       "[attention] heads do not match: q \"q\" is f32(2, 5, 4, 8), k "
       "\"k\" is f32(2, 5, 3, 8); expected q (B, T, H, D) and k (B, S, G, D) "
       "with G dividing H"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 32});
         CausalAttention(q, q, q);
       },
       "[attention] heads do not match: q \"q\" is f32(2, 5, 32), k "
       "\"q\" is f32(2, 5, 32); expected q (B, T, H, D) and k (B, S, G, D) "
       "with G dividing H"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         CausalAttention(q, q, F32(g, "v", {2, 5, 4, 6}));
       },
       "[attention] v \"v\" is f32(2, 5, 4, 6); expected f32(2, 5, 4, "
       "8), since k \"q\" is f32(2, 5, 4, 8)"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         CausalAttention(q, q, q, kNaN);
       },
       "[attention] scale is nan; expected a finite number above 0"},
      {[](GraphBuilder& g) {
         const Value k = F32(g, "k", {2, 3, 4, 8});
         CausalAttention(F32(g, "q", {2, 5, 4, 8}), k, k);
       },
       "[attention] the first query reads no key: q \"q\" is f32(2, 5, 4, 8), "
       "k \"k\" is f32(2, 3, 4, 8), causal: 5 queries end at the last of 3 "
       "keys; expected at least 5 keys"},
      {[](GraphBuilder& g) {
         const Value k = F32(g, "k", {2, 3, 4, 8});
         Attention(F32(g, "q", {2, 5, 4, 8}), k, k, {.window = 2});
       },
       "[attention] the first query reads no key: q \"q\" is f32(2, 5, 4, 8), "
       "k \"k\" is f32(2, 3, 4, 8), window 2: 5 queries end at the last of 3 "
       "keys; expected a window above 2"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         Attention(q, q, q, {.window = -1});
       },
       "[attention] window is -1; expected at least 1, or 0 for none"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         Attention(q, q, q, {.softcap = -1});
       },
       "[attention] softcap is -1; expected a finite number above 0"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         Attention(q, q, q, {.key_lengths = I32(g, "n", {5})});
       },
       "[attention] key_lengths \"n\" is i32(5); expected i32(2), a length for "
       "each of the batch of q \"q\" is f32(2, 5, 4, 8)"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         Attention(q, q, q, {.segments = I32(g, "n", {2, 1, 5})});
       },
       "[attention] segments \"n\" is i32(2, 1, 5); expected i32(2, 2, 5), a "
       "first position and one behind the last for each of q \"q\" is f32(2, "
       "5, 4, 8)"},
      {[](GraphBuilder& g) {
         const Value k = F32(g, "k", {2, 7, 4, 8});
         Attention(F32(g, "q", {2, 5, 4, 8}), k, k,
                   {.segments = I32(g, "n", {2, 2, 5})});
       },
       "[attention] lengths differ: q \"q\" is f32(2, 5, 4, 8), k \"k\" is "
       "f32(2, 7, 4, 8); segments are of as many keys as queries"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         g.Emit(
             OpKind::kAttention, Values{q, q},
             {{"scale", 1.0}, {"causal", int64_t{0}}, {"window", int64_t{0}}});
       },
       "[attention] takes 3 operands and behind them a bias, key lengths or "
       "segments, or one of these behind a bias; got 2"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         Attention(q, q, q, {.bias = F32(g, "bias", {2, 1, 4, 5})});
       },
       "[attention] bias \"bias\" is f32(2, 1, 4, 5); expected (B, H, T, S), "
       "(2, 4, 5, 5) of q \"q\" is f32(2, 5, 4, 8) and k \"q\" is f32(2, 5, 4, "
       "8), or 1 for any of the first three"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         Attention(q, q, q, {.bias = F32(g, "bias", {2, 4, 5, 1})});
       },
       "[attention] bias \"bias\" is f32(2, 4, 5, 1); expected (B, H, T, S), "
       "(2, 4, 5, 5) of q \"q\" is f32(2, 5, 4, 8) and k \"q\" is f32(2, 5, 4, "
       "8), or 1 for any of the first three"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         Attention(q, q, q, {.bias = F32(g, "bias", {4, 5, 5})});
       },
       "[attention] bias \"bias\" is f32(4, 5, 5); expected (B, H, T, S), "
       "(2, 4, 5, 5) of q \"q\" is f32(2, 5, 4, 8) and k \"q\" is f32(2, 5, 4, "
       "8), or 1 for any of the first three"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         Attention(q, q, q, {.bias = F64(g, "bias", {1, 1, 1, 5})});
       },
       "[attention] element types differ: q \"q\" is f32(2, 5, 4, 8), bias "
       "\"bias\" is f64(1, 1, 1, 5); expected one element type: cast one of "
       "them"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         Attention(q, q, q,
                   {.key_lengths = I32(g, "n", {2}),
                    .bias = I32(g, "bias", {1, 1, 1, 5})});
       },
       "[attention] element types differ: q \"q\" is f32(2, 5, 4, 8), bias "
       "\"bias\" is i32(1, 1, 1, 5); expected one element type: cast one of "
       "them"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         AttentionBiasGrad(q, q, q, q, F32(g, "l", {2, 4, 5}), q, {});
       },
       "[attention_bias_grad] takes 6 operands and behind them a bias, then "
       "perhaps key lengths or segments; got 6"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         AttentionGrad(q, q, q, q, F32(g, "l", {2, 5, 4}), q);
       },
       "[attention_grad] log_sum_exp \"l\" is f32(2, 5, 4); expected "
       "f32(2, 4, 5), since q \"q\" is f32(2, 5, 4, 8)"},
      {[](GraphBuilder& g) {
         const Value q = F32(g, "q", {2, 5, 4, 8});
         AttentionGrad(q, q, q, q, F32(g, "l", {2, 4, 5}),
                       F32(g, "d_o", {2, 5, 32}));
       },
       "[attention_grad] d_o \"d_o\" is f32(2, 5, 32); expected f32(2, "
       "5, 4, 8), since q \"q\" is f32(2, 5, 4, 8)"},
  });
}

TEST_CASE("batch_norm") {
  CheckRows({
      {[](GraphBuilder& g) {
         BatchNorm(F32(g, "x", {8}), F32(g, "gamma", {8}), F32(g, "beta", {8}));
       },
       "[batch_norm] x \"x\" is f32(8); expected rank at least 2"},
      {[](GraphBuilder& g) {
         BatchNorm(F32(g, "x", {1, 8, 1, 1}), F32(g, "gamma", {8}),
                   F32(g, "beta", {8}));
       },
       "[batch_norm] x \"x\" is f32(1, 8, 1, 1), which is 1 number for each of "
       "its 8 channels and has no variance; expected a batch of at least 2 "
       "examples or positions"},
      {[](GraphBuilder& g) {
         BatchNorm(F32(g, "x", {2, 8, 3}), F32(g, "gamma", {3}),
                   F32(g, "beta", {8}));
       },
       "[batch_norm] gamma \"gamma\" is f32(3); expected f32(8), since x \"x\" "
       "is f32(2, 8, 3)"},
      {[](GraphBuilder& g) {
         BatchNorm(F32(g, "x", {2, 8}), F32(g, "gamma", {8}),
                   F32(g, "beta", {8}), -1);
       },
       "[batch_norm] eps is -1; expected a finite number above 0"},
  });
}

}  // namespace
}  // namespace stowage
