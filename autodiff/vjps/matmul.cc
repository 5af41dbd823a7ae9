#include "autodiff/vjp.h"
#include "autodiff/vjps/shapes.h"
#include "ir/ops.h"
#include "ir/weight_type.h"

namespace stowage {

namespace {

// The gradient of b, in b's own layout.
Value ProductForB(Value a, Value dy, bool transpose_a, bool transpose_b) {
  return transpose_b ? MatMul(dy, a, true, transpose_a)     // N x M * M x K
                     : MatMul(a, dy, !transpose_a, false);  // K x M * M x N
}

// (..., R, C) -> (... * R, C)
Value Flatten(Value x) {
  const int64_t columns = x.shape().back();
  return ReshapeTo(x, {x.shape().num_elements() / columns, columns});
}

}  // namespace

// y = a b with a M x K, b K x N. The gradient of b comes first: a may die
// before the gradient of a, of its size, is born.
constinit const Vjp MatMulVjp = Differentiable([](VjpContext& v) {
  const bool transpose_a = v.attrs().Int("transpose_a") != 0;
  const bool transpose_b = v.attrs().Int("transpose_b") != 0;
  const bool shares_b = v.input_shape(1).rank() == 2;  // by all of a
  const Value dy = v.cotangent();                      // ... x M x N
  if (v.needs(1)) {
    const Value a = v.input(0);
    if (shares_b && !transpose_a) {
      // Leading dimensions are more rows.
      v.Contribute(1, ProductForB(Flatten(a), Flatten(dy), false, transpose_b));
    } else {
      v.Contribute(1, SumTo(ProductForB(a, dy, transpose_a, transpose_b),
                            v.input_shape(1)));
    }
  }
  if (!v.needs(0)) return;
  const Value b = v.input(1);
  if (!transpose_a) {
    v.Contribute(0, MatMul(dy, b, false, !transpose_b));  // M x N * N x K
  } else if (shares_b) {
    v.Contribute(0, Transpose(MatMul(dy, b, false, !transpose_b)));  // K x M
  } else {
    v.Contribute(0, MatMul(b, dy, transpose_b, true));  // K x N * N x M
  }
});

// As matmul's, group by group.
constinit const Vjp GroupedMatMulVjp = Differentiable([](VjpContext& v) {
  const bool transposed = v.attrs().Int("transpose_w") != 0;
  const Value ends = v.input(2), dy = v.cotangent();
  if (v.needs(1)) {
    const Value x = v.input(0);
    v.Contribute(1, transposed ? GroupedMatMulWeightGrad(dy, x, ends)
                               : GroupedMatMulWeightGrad(x, dy, ends));
  }
  if (v.needs(0)) {
    v.Contribute(0, GroupedMatMul(dy, v.input(1), ends, !transposed));
  }
});

STOWAGE_NON_DIFFERENTIABLE(GroupedMatMulWeightGrad,
                           "second derivatives are not provided");

STOWAGE_NON_DIFFERENTIABLE(EpilogueMatMul,
                           "epilogues are formed when steps are complete; "
                           "differentiate the graph of the parts");

// For x only, by the same matrix transposed: no forward value is saved.
constinit const Vjp QuantizedMatMulVjp = Differentiable([](VjpContext& v) {
  const auto blocks = static_cast<WeightType>(v.attrs().Int("blocks"));
  const bool transposed = v.attrs().Int("transpose_w") != 0;
  v.Contribute(0,
               QuantizedMatMul(v.cotangent(), v.input(1), blocks, !transposed));
});

STOWAGE_ZERO_DERIVATIVE(QuantizedGather);

STOWAGE_NON_DIFFERENTIABLE(JoinWeight, "updates read it");
STOWAGE_NON_DIFFERENTIABLE(SplitUpdate, "it overwrites what it reads");

}  // namespace stowage
