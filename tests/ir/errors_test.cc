// The messages of mistakes that the ops can name, word for word: of attributes, of values
// that are made, moved, viewed and written, and of all ops alike.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/ir/op_rows.h"

namespace stowage {
namespace {

using L = std::vector<int64_t>;
using Values = std::vector<Value>;

TEST_CASE("an error ends with the caller's file and line") {
  GraphBuilder g("errors");
  const Value x = F32(g, "x", {2});
  const Value y = F32(g, "y", {3});
  const int line = __LINE__ + 1;
  Add(x, y);
  const Result<Graph> graph = g.Finish();
  REQUIRE_FALSE(graph.ok());
  const std::string end = StrCat(" (at ", __FILE__, ":", line, ")");
  const std::string& message = graph.error().message;
  REQUIRE(message.size() > end.size());
  CHECK(message.substr(message.size() - end.size()) == end);
}

TEST_CASE("attributes") {
  CheckRows({
      {[](GraphBuilder& g) { LeakyRelu(F32(g, "x", {4}), -0.5); },
       "[leaky_relu] slope is -0.5; expected a finite number of at least 0"},
      {[](GraphBuilder& g) { Elu(F32(g, "x", {4}), 0); },
       "[elu] alpha is 0; expected a finite number above 0"},
      {[](GraphBuilder& g) { Elu(F32(g, "x", {4}), 1, -2); },
       "[elu] scale is -2; expected a finite number above 0"},
      {[](GraphBuilder& g) { Clamp(F32(g, "x", {4}), 2, 1.5); },
       "[clamp] min is 2; expected at most max, which is 1.5"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kSlice, Values{F32(g, "x", {4})},
                {{"start", int64_t{0}},
                 {"end", int64_t{1}},
                 {"step", int64_t{1}}});
       },
       "[slice] attribute \"axis\" is missing; expected an integer"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kConcat, Values{F32(g, "x", {4})}, {{"axis", 0.0}});
       },
       "[concat] attribute \"axis\" is a real number; expected an integer"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kLayerNorm,
                Values{F32(g, "x", {4}), F32(g, "a", {4}), F32(g, "b", {4})},
                {{"eps", int64_t{1}}});
       },
       "[layer_norm] attribute \"eps\" is an integer; expected a real number"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kCast, Values{F32(g, "x", {4})}, {{"dtype", L{1}}});
       },
       "[cast] attribute \"dtype\" is a list of integers; expected an element "
       "type"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kReshape, Values{F32(g, "x", {4})},
                {{"shape", DType::kF32}});
       },
       "[reshape] attribute \"shape\" is an element type; expected a list of "
       "integers"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kReshape, Values{F32(g, "x", {4})},
                {{"shape", std::string("4")}});
       },
       "[reshape] attribute \"shape\" is bytes; expected a list of integers"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kConstant, {},
                {{"dtype", DType::kF32}, {"shape", L{}}});
       },
       "[constant] attribute \"data\" is missing; expected bytes"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kRelu, Values{F32(g, "x", {4})},
                {{"axis", int64_t{0}}});
       },
       "[relu] takes no attribute \"axis\""},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kCast, Values{F32(g, "x", {4})},
                {{"dtype", DType::kF32}, {"dtype", DType::kF64}});
       },
       "[cast] attribute \"dtype\" is given twice; expected once"},
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kReduceSum, Values{F32(g, "x", {4})},
                {{"axes", L{0}}, {"keep", int64_t{2}}});
       },
       "[reduce_sum] attribute \"keep\" is 2; expected 0 or 1"},
  });
}

TEST_CASE("creation") {
  CheckRows({
      {[](GraphBuilder& g) {
         const std::vector<std::byte> data(11);
         Constant(g, DType::kF32, {3}, data);
       },
       "[constant] data has 11 bytes; f32(3) has 12"},
      {[](GraphBuilder& g) {
         const std::vector<std::byte> data = {std::byte{1}, std::byte{200}};
         Constant(g, DType::kBool, {2}, data);
       },
       "[constant] byte 1 of bool data is 200; expected 0 or 1"},
      {[](GraphBuilder& g) { Fill(g, 0.5, DType::kI32, {2}); },
       "[fill] value is 0.5; expected a number that i32 holds"},
      {[](GraphBuilder& g) { Fill(g, 2147483648.0, DType::kI32, {2}); },
       "[fill] value is 2147483648; expected a number that i32 holds"},
      {[](GraphBuilder& g) { Fill(g, -1, DType::kU8, {2}); },
       "[fill] value is -1; expected a number that u8 holds"},
      {[](GraphBuilder& g) { Fill(g, 2, DType::kBool, {2}); },
       "[fill] value is 2; expected a number that bool holds"},
      {[](GraphBuilder& g) { Fill(g, kNaN, DType::kI64, {2}); },
       "[fill] value is nan; expected a number that i64 holds"},
      {[](GraphBuilder& g) {
         Fill(g, 0, DType::kF32, {2, 0});
       },
       "[fill] shape (2, 0) has dimension 0; expected at least 1"},
      {[](GraphBuilder& g) {
         Fill(g, 0, DType::kF32, {kHuge, kHuge});
       },
       "[fill] shape (1099511627776, 1099511627776) is too large; its bytes "
       "must fit 64 bits"},
      {[](GraphBuilder& g) {
         Fill(g, 0, DType::kF32, {kHuge, int64_t{1} << 21});
       },
       "[fill] result f32(1099511627776, 2097152) is too large; its bytes must "
       "fit 64 bits"},
      {[](GraphBuilder& g) {
         Fill(g, 0, DType::kF32, {1, 2, 1, 1, 1, 1, 1, 1, 3});
       },
       "[fill] shape (1, 2, 1, 1, 1, 1, 1, 1, ...) has rank 9; at most 8 is "
       "supported"},
      {[](GraphBuilder& g) { MulScalar(I32(g, "n", {2}), 0.5); },
       "[fill] value is 0.5; expected a number that i32 holds"},
  });
}

TEST_CASE("movement") {
  CheckRows({
      {[](GraphBuilder& g) {
         g.Emit(OpKind::kConcat, {}, {{"axis", int64_t{0}}});
       },
       "[concat] has no parts; expected at least 1"},
      {[](GraphBuilder& g) {
         const Values parts = {F32(g, "a", {2, 3}), F32(g, "b", {2, 4})};
         Concat(parts, 0);
       },
       "[concat] shapes differ: part 0 \"a\" is f32(2, 3), part 1 \"b\" is "
       "f32(2, 4); all dimensions but axis 0 must agree"},
      {[](GraphBuilder& g) {
         const Values parts = {F32(g, "a", {2}), F32(g, "b", {2, 1})};
         Concat(parts, 0);
       },
       "[concat] shapes differ: part 0 \"a\" is f32(2), part 1 \"b\" is f32(2, "
       "1); all dimensions but axis 0 must agree"},
      {[](GraphBuilder& g) {
         const Values parts = {F32(g, "a", {2}), F64(g, "b", {2})};
         Concat(parts, 0);
       },
       "[concat] element types differ: part 0 \"a\" is f32(2), part 1 \"b\" is "
       "f64(2); expected one element type: cast one of them"},
      {[](GraphBuilder& g) {
         const Values parts = {F32(g, "a", {2})};
         Concat(parts, -2);
       },
       "[concat] axis -2 is out of range: part 0 \"a\" is f32(2); expected 0 "
       "to 0"},
      {[](GraphBuilder& g) {
         const Values parts = {F32(g, "a", {})};
         Concat(parts, 0);
       },
       "[concat] axis 0 is out of range: part 0 \"a\" is f32(); expected rank "
       "at least 1"},
      {[](GraphBuilder& g) {
         const Value x = g.Input("x", DType::kU8, {int64_t{1} << 62});
         const Values parts = {x, x};
         Concat(parts, 0);
       },
       "[concat] axis 0 sums to more than 64 bits at part 1 \"x\" is "
       "u8(4611686018427387904); join fewer or smaller parts"},
      {[](GraphBuilder& g) {
         Cast(g.Input("x", DType::kU8, {int64_t{1} << 61}), DType::kF64);
       },
       "[cast] result f64(2305843009213693952) is too large; its bytes must "
       "fit 64 bits"},
      {[](GraphBuilder& g) { Gather(F32(g, "t", {}), I32(g, "i", {2})); },
       "[gather] table \"t\" is f32(); expected rank at least 1"},
      {[](GraphBuilder& g) {
         Gather(F32(g, "t", {5, 2}), F32(g, "i", {2}));
       },
       "[gather] indices \"i\" is f32(2); expected i32 or i64"},
      {[](GraphBuilder& g) {
         Gather(F32(g, "t", {5, 1, 1, 1, 2}), I32(g, "i", {1, 1, 1, 1, 1}));
       },
       "[gather] result f32(1, 1, 1, 1, 1, 1, 1, 1, ...) would have rank 9; at "
       "most 8 is supported"},
      {[](GraphBuilder& g) {
         ScatterAdd(Bool(g, "base", {5}), I32(g, "i", {2}), Bool(g, "u", {2}));
       },
       "[scatter_add] base \"base\" is bool(5); expected any element type but "
       "bool"},
      {[](GraphBuilder& g) {
         ScatterAdd(F32(g, "base", {}), I32(g, "i", {2}), F32(g, "u", {2}));
       },
       "[scatter_add] base \"base\" is f32(); expected rank at least 1"},
      {[](GraphBuilder& g) {
         ScatterAdd(F32(g, "base", {5}), Bool(g, "i", {2}), F32(g, "u", {2}));
       },
       "[scatter_add] indices \"i\" is bool(2); expected i32 or i64"},
      {[](GraphBuilder& g) {
         ScatterAdd(F32(g, "base", {5, 3}), I32(g, "i", {2}),
                    F64(g, "u", {2, 3}));
       },
       "[scatter_add] updates \"u\" is f64(2, 3); expected f32(2, 3), since "
       "base \"base\" is f32(5, 3) and indices \"i\" is i32(2)"},
  });
}

TEST_CASE("views") {
  CheckRows({
      {[](GraphBuilder& g) {
         Reshape(F32(g, "x", {2, 3}), {4});
       },
       "[reshape] element counts differ: x \"x\" is f32(2, 3) with 6 elements, "
       "shape (4) has 4"},
      {[](GraphBuilder& g) {
         Reshape(F32(g, "x", {2, 3}), {4, -1});
       },
       "[reshape] the -1 in (4, -1) cannot be found: x \"x\" is f32(2, 3) with "
       "6 elements; expected one -1 and others whose product divides that"},
      {[](GraphBuilder& g) {
         Reshape(F32(g, "x", {2, 3}), {-1, -1});
       },
       "[reshape] the -1 in (-1, -1) cannot be found: x \"x\" is f32(2, 3) "
       "with 6 elements; expected one -1 and others whose product divides "
       "that"},
      {[](GraphBuilder& g) {
         Reshape(F32(g, "x", {2, 3}), {0, -1});
       },
       "[reshape] the -1 in (0, -1) cannot be found: x \"x\" is f32(2, 3) with "
       "6 elements; expected one -1 and others whose product divides that"},
      {[](GraphBuilder& g) {
         Reshape(F32(g, "x", {2, 3}), {kHuge, kHuge, -1});
       },
       "[reshape] the -1 in (1099511627776, 1099511627776, -1) cannot be "
       "found: x \"x\" is f32(2, 3) with 6 elements; expected one -1 and "
       "others whose product divides that"},
      {[](GraphBuilder& g) {
         Reshape(F32(g, "x", {2, 3}), {-2, 3});
       },
       "[reshape] shape (-2, 3) has dimension -2; expected at least 1"},
      {[](GraphBuilder& g) {
         Permute(F32(g, "x", {2, 3}), {0});
       },
       "[permute] order (0) is no permutation of the axes: x \"x\" is f32(2, "
       "3); expected each of its 2 axes once"},
      {[](GraphBuilder& g) {
         Permute(F32(g, "x", {2, 3}), {1, -1});
       },
       "[permute] order (1, 1) is no permutation of the axes: x \"x\" is "
       "f32(2, 3); expected each of its 2 axes once"},
      {[](GraphBuilder& g) {
         Permute(F32(g, "x", {2, 3}), {0, -3});
       },
       "[permute] order (0, -3) is no permutation of the axes: x \"x\" is "
       "f32(2, 3); expected each of its 2 axes once"},
      {[](GraphBuilder& g) { Transpose(F32(g, "x", {3})); },
       "[permute] nothing to transpose: x \"x\" is f32(3); expected rank at "
       "least 2"},
      {[](GraphBuilder& g) { Slice(F32(g, "x", {4}), 1, 0, 1); },
       "[slice] axis 1 is out of range: x \"x\" is f32(4); expected 0 to 0"},
      {[](GraphBuilder& g) { Slice(F32(g, "x", {4}), 0, 2, 2); },
       "[slice] range [2, 2) is empty or outside axis 0: x \"x\" is f32(4); "
       "expected 0 <= start < end <= 4"},
      {[](GraphBuilder& g) { Slice(F32(g, "x", {4}), 0, -1, 2); },
       "[slice] range [-1, 2) is empty or outside axis 0: x \"x\" is f32(4); "
       "expected 0 <= start < end <= 4"},
      {[](GraphBuilder& g) { Slice(F32(g, "x", {4}), 0, 2, 5); },
       "[slice] range [2, 5) is empty or outside axis 0: x \"x\" is f32(4); "
       "expected 0 <= start < end <= 4"},
      {[](GraphBuilder& g) { Slice(F32(g, "x", {4}), 0, 0, 4, 0); },
       "[slice] step is 0; expected at least 1"},
      {[](GraphBuilder& g) { Split(F32(g, "x", {4}), 1, {4}); },
       "[split] axis 1 is out of range: x \"x\" is f32(4); expected 0 to 0"},
      {[](GraphBuilder& g) {
         Split(F32(g, "x", {4}), 0, {1, 2});
       },
       "[split] sizes (1, 2) do not cut axis 0: x \"x\" is f32(4); expected "
       "sizes of at least 1 that sum to 4"},
      {[](GraphBuilder& g) {
         Split(F32(g, "x", {4}), 0, {5, -1});
       },
       "[split] sizes (5, -1) do not cut axis 0: x \"x\" is f32(4); expected "
       "sizes of at least 1 that sum to 4"},
      {[](GraphBuilder& g) { Split(F32(g, "x", {4}), 0, {}); },
       "[split] sizes () do not cut axis 0: x \"x\" is f32(4); expected sizes "
       "of at least 1 that sum to 4"},
      {[](GraphBuilder& g) {
         Split(F32(g, "x", {4}), 0, {INT64_MAX, INT64_MAX, 6});
       },
       "[split] sizes (9223372036854775807, 9223372036854775807, 6) do not cut "
       "axis 0: x \"x\" is f32(4); expected sizes of at least 1 that sum to 4"},
      {[](GraphBuilder& g) {
         BroadcastTo(F32(g, "x", {2, 3}), {2, 4});
       },
       "[broadcast] x \"x\" is f32(2, 3); it does not broadcast to (2, 4): "
       "counted from the last, each dimension of x must be 1 or equal"},
      {[](GraphBuilder& g) {
         BroadcastTo(F32(g, "x", {2, 3}), {3});
       },
       "[broadcast] x \"x\" is f32(2, 3); it does not broadcast to (3): "
       "counted from the last, each dimension of x must be 1 or equal"},
      {[](GraphBuilder& g) {
         BroadcastTo(F32(g, "x", {}), {kHuge, kHuge});
       },
       "[broadcast] shape (1099511627776, 1099511627776) is too large; its "
       "bytes must fit 64 bits"},
      {[](GraphBuilder& g) {
         BroadcastTo(F32(g, "x", {}), {3, -1});
       },
       "[broadcast] shape (3, -1) has dimension -1; expected at least 1"},
  });
}

TEST_CASE("writing in place") {
  CheckRows({
      {[](GraphBuilder& g) {
         Assign(g.State("s", DType::kF32, {2, 3}), F32(g, "x", {3, 2}));
       },
       "[assign] shapes differ: target \"s\" is f32(2, 3), x \"x\" is f32(3, "
       "2); expected one shape"},
      {[](GraphBuilder& g) {
         LerpUpdate(g.State("s", DType::kI32, {2}), I32(g, "x", {2}),
                    I32(g, "w", {2}));
       },
       "[lerp_update] target \"s\" is i32(2); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         SliceUpdate(g.State("s", DType::kF32, {2, 3}), F32(g, "x", {2, 2}), 1,
                     2);
       },
       "[slice_update] places [2, 4) are not all in axis 1: target \"s\" is "
       "f32(2, 3), x \"x\" is f32(2, 2)"},
      {[](GraphBuilder& g) {
         SliceUpdate(g.State("s", DType::kF32, {2, 3}), F32(g, "x", {2, 4}), 1,
                     0);
       },
       "[slice_update] places [0, 4) are not all in axis 1: target \"s\" is "
       "f32(2, 3), x \"x\" is f32(2, 4)"},
      {[](GraphBuilder& g) {
         SliceUpdate(g.State("s", DType::kF32, {2, 3}), F32(g, "x", {2}), 0, 0);
       },
       "[slice_update] shapes differ: target \"s\" is f32(2, 3), x \"x\" is "
       "f32(2); all dimensions but axis 0 must agree"},
      {[](GraphBuilder& g) {
         SliceUpdate(g.State("s", DType::kF32, {2, 3}), F32(g, "x", {2, 1}), 1,
                     F32(g, "from", {}));
       },
       "[slice_update] from \"from\" is f32(); expected i32 or i64"},
      {[](GraphBuilder& g) {
         SliceUpdate(g.State("s", DType::kF32, {2, 3}), F32(g, "x", {2, 1}), 1,
                     g.Input("from", DType::kI32, {1}));
       },
       "[slice_update] from \"from\" is i32(1); expected a scalar"},
      {[](GraphBuilder& g) {
         const Value s = g.State("s", DType::kF32, {2, 3});
         const Value x = F32(g, "x", {2, 1});
         const Value operands[] = {s};
         g.Emit(OpKind::kSliceUpdate, operands, {{"axis", 1}, {"start", 0}});
         static_cast<void>(x);
       },
       "[slice_update] takes 2 operands, or 3 with where to start; was given "
       "1"},
  });
}

TEST_CASE("operands must be values of one builder") {
  GraphBuilder g("one");
  GraphBuilder other("other");
  const Value x = F32(g, "x", {2});
  CHECK_FALSE(Add(x, F32(other, "y", {2})).ok());
  REQUIRE(g.error().has_value());
  CHECK(g.error()->message.starts_with(
      "[add] operand 1 is not a value of graph \"one\""));
  CHECK_FALSE(other.error().has_value());

  GraphBuilder h("empty handle");
  CHECK_FALSE(MatMul(F32(h, "a", {2, 2}), Value()).ok());
  REQUIRE(h.error().has_value());
  CHECK(h.error()->message.starts_with(
      "[matmul] operand 1 is not a value of graph \"empty handle\""));

  CHECK_FALSE(Relu(Value()).ok());
  CHECK_FALSE(Softmax(Value(), 0).ok());
  CHECK_FALSE(AddScalar(Value(), 1).ok());
  CHECK_FALSE(Transpose(Value()).ok());
  CHECK_FALSE(Add(Value(), Value()).ok());
}

TEST_CASE("after an error every function passes inert values on") {
  GraphBuilder g("first");
  const Value x = F32(g, "x", {2, 3});
  const Value bad = MatMul(x, F32(g, "w", {4, 5}));
  REQUIRE_FALSE(bad.ok());
  const std::string first = g.error()->message;
  const Values parts = {bad, x};
  const Values two = Split(bad, 0, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(two.size() == 10);
  Values all = {
      Fill(g, 0.5, DType::kI32, {1}),
      Constant(g, DType::kF32, {2}, {}),
      Reshape(bad, {-1, 3}),
      Permute(bad, {-1}),
      Transpose(bad),
      Slice(bad, -1, 0, 1),
      BroadcastTo(bad, {2}),
      Copy(bad),
      Cast(bad, DType::kF64),
      Concat(parts, -1),
      Gather(bad, bad),
      ScatterAdd(bad, bad, bad),
      Relu(bad),
      Add(bad, x),
      Add(x, bad),
      AddScalar(bad, 1),
      MulScalar(bad, 2),
      Less(x, bad),
      Where(bad, x, x),
      ReluGrad(bad, x),
      Dropout(bad, x, x, 2, 0),
      ReduceSum(bad, {-5}),
      SumSquares(bad),
      ArgMax(bad),
      MatMul(bad, x),
      Softmax(bad, 7),
      LogSoftmax(bad, 0),
      SoftmaxGrad(x, bad),
      CrossEntropy(bad, x),
      CrossEntropyGrad(bad, x, x, x),
      LinearCrossEntropy(x, bad, x, 1),
      LinearCrossEntropyGrad(x, bad, x, x, 1).dw,
      QuantizedMatMul(bad, x, WeightType::kQ4_0),
      QuantizedGather(x, bad, WeightType::kQ4_0),
      MeanSquaredError(bad, x),
      LayerNorm(x, bad, bad),
      CausalAttention(bad, x, x),
      LocalResponseNorm(bad),
      LstmSequence(x, bad, x, x).c,
      LstmGrad(x, x, x, x, x, bad, false).dc0,
      LstmWeightGrad(x, x, bad, false),
      RmsNorm(x, bad),
      RmsNormGrad(x, x, bad, x).dgamma,
      Rope(bad),
      Rope(x, bad),
      SwiGlu(x, bad),
      GluGrad(x, x, bad, GluActivation::kSilu).dup,
      LayerNormGrad(x, bad, x, x, x).dbeta,
      AttentionGrad(x, x, x, x, x, bad).dv,
      SgdUpdate(bad, x, x, Value(), 0),
      MomentumUpdate(x, bad, x, x, bad, 0, 0).velocity,
      AdamWUpdate(x, x, x, bad, x, x, Value(), 0, 0, 0, 0).v,
      AdamWSplitUpdate(x, x, x, x, bad, x, x, Value(), 0, 0, 0, 0).delta};
  all.insert(all.end(), two.begin(), two.end());
  for (const Value& value : all) CHECK_FALSE(value.ok());
  CHECK(g.graph().num_nodes() == 0);
  const Result<Graph> graph = g.Finish();
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.error().message == first);
}

}  // namespace
}  // namespace stowage
