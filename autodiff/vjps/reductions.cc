#include "autodiff/vjp.h"
#include "autodiff/vjps/shapes.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp ReduceSumVjp = Differentiable([](VjpContext& v) {
  v.Contribute(
      0, Unreduce(v.cotangent(), v.attrs().Ints("axes"), v.input_shape(0)));
});

constinit const Vjp ReduceMeanVjp = Differentiable([](VjpContext& v) {
  const Axes& axes = v.attrs().Ints("axes");
  const Shape& shape = v.input_shape(0);
  const auto count = static_cast<double>(CountAlong(shape, axes));
  // Scaled before it is spread: the smaller tensor.
  v.Contribute(0, Unreduce(MulScalar(v.cotangent(), 1 / count), axes, shape));
});

// Equal maxima share the gradient equally.
constinit const Vjp ReduceMaxVjp = Differentiable([](VjpContext& v) {
  const Axes& axes = v.attrs().Ints("axes");
  const TensorType& type = v.input_type(0);
  const Value is_max =
      Equal(v.input(0), Unreduce(v.output(), axes, type.shape));
  const Value count = ReduceSum(Cast(is_max, type.dtype), axes, /*keep=*/true);
  const Value share = Div(ReshapeTo(v.cotangent(), count.shape()), count);
  v.Contribute(0, Where(is_max, Unreduce(share, axes, type.shape),
                        Zeros(v.builder(), type)));
});

// 2 x dy; dy may be of a wider type than x.
constinit const Vjp SumSquaresVjp = Differentiable([](VjpContext& v) {
  const TensorType& type = v.input_type(0);
  const Value twice = Cast(MulScalar(v.cotangent(), 2), type.dtype);
  v.Contribute(0, Mul(v.input(0), Unreduce(twice, {}, type.shape)));
});

STOWAGE_ZERO_DERIVATIVE(ArgMax);

STOWAGE_NON_DIFFERENTIABLE(SumPartials, "second derivatives are not provided");

// To where the values came from, which is all that is kept.
constinit const Vjp TopKVjp = Differentiable([](VjpContext& v) {
  if (!v.needs(0)) return;
  v.Contribute(0, PutAdd(AccumulatedOrZeros(v, 0), v.output(1), v.cotangent(),
                         v.input_shape(0).rank() - 1));
});

// Each element goes into all sums from its own on: the same, from the other end.
constinit const Vjp CumSumVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, CumSum(v.cotangent(), v.attrs().Int("axis"),
                         v.attrs().Int("exclusive") == 1,
                         v.attrs().Int("reverse") == 0));
});

}  // namespace stowage
